"""A day's agenda: clock times as minutes since midnight, and meetings between them."""
