"""A board of squares: places on it, neighbours, lines and walks."""
