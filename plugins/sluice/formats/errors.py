"""What is wrong with a schema, inside this room."""


class BadSchema(ValueError):
    """A schema that cannot be used; the text says why."""
