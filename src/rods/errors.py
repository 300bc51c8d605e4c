"""Every error that RODS raises, on one page, named by the boundary that was crossed.

Messages say what happened, where (file, key, line, task id), what was expected and what to do.
Each class also inherits the standard library's error of that meaning, all can be pickled.
"""


class RodsError(Exception):
    """Base of all errors that RODS raises on purpose."""


class ConfigError(RodsError, ValueError):
    """A setting is unknown, of the wrong type or contradicts another."""


class EmptySplitError(ConfigError):
    """The scenarios are too few, or split so that one side of training has none."""


class PrerequisiteError(RodsError, ImportError):
    """Something must be installed or fetched first; the message holds the command."""


class TaskError(RodsError, ValueError):
    """A task row is broken or doubled, or its ground truth does not replay."""


class EnvError(RodsError, RuntimeError):
    """An environment failed as infrastructure; the trajectory is invalid, not worth 0."""


class PolicyError(RodsError, RuntimeError):
    """A model, tokenizer or inference engine cannot do what was asked of it."""


class TokenError(RodsError, AssertionError):
    """The token ledger would break its prefix invariant."""


class RewardError(RodsError, ValueError):
    """A reward is unknown or returned something that is not a score."""


class SynthesisError(RodsError, RuntimeError):
    """A writer or the synthesis worker failed."""


class WriterError(SynthesisError):
    """A chat server gave no usable answer."""

    def __init__(self, message: str, fatal: bool = False, down: bool = False) -> None:
        """Keep the message and what it says of later requests."""
        super().__init__(message)
        self.fatal = fatal
        """True: wrong address, key or model. False: this request failed, the next may not."""
        self.down = down
        """True: nobody got an answer for a while; ask again after a pause."""

    @property
    def suspends(self) -> bool:
        """True if the next request should wait."""
        return self.fatal or self.down


class TrainError(RodsError, RuntimeError):
    """An update cannot be computed."""


class StoreError(RodsError, OSError):
    """A run directory is missing, damaged, full, or belongs to another version."""


class Interrupted(RodsError):
    """Ctrl-C: the work stopped at a step boundary and can be resumed."""
