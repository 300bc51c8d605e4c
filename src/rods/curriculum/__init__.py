"""The curriculum: what the policy can learn from now.

Owns the boundary of what it can do, the replay buffer with its journal, and `OnlineCurriculum`,
the one object that a trainer drives. Never plays a task, never makes one.

    from rods.curriculum.online import OnlineCurriculum
"""
