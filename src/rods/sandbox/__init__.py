"""Running code that a model wrote: a locked local interpreter and a client of a remote one.

The packages of the core never import this one; environments do.

    from rods.sandbox.pool import SandboxPool      # on this machine, no root, no container
    from rods.sandbox.remote import RemoteSandbox  # a SandboxFusion service
    from rods.sandbox.execution import Execution, SandboxLimits
"""
