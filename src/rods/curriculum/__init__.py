"""The curriculum: which tasks the policy can learn from now.

Owns the boundary of what the policy can do, the replay buffer, the synthesis requests, and
`OnlineCurriculum`, the one object that a trainer drives. It never rolls out a task and never
generates one.

    from rods.curriculum.online import OnlineCurriculum
"""
