"""Base of every package: files, one database, services, settings' keys, installing, signals.

Owns no word of the method: nothing here knows what a task or a policy is.

    from rods.infra.files import write_atomic
"""
