"""A lending library as a tool world: the worked example of bringing your own tools."""
