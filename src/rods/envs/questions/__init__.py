"""Questions with a verifiable answer: generated families, reasoning-gym, and files of data sets.

Owns nothing itself: `families.py` makes questions, `gym.py` asks reasoning-gym, `files.py` reads
published data sets from disk.

    from rods.envs.questions.families import make_question, question_task
"""
