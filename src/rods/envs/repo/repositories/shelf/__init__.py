"""A lending library: what is on loan, when it is due, what lateness costs."""
