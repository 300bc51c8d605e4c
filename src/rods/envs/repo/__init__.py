"""Repairing repositories: a working copy, a shell and an editor, and tests that nobody shows.

Owns nothing itself: `repositories/` are small repositories of our own, `mutations.py` and
`plant.py` put bugs into them, `checks.py` are the hidden tests, `world.py` is the working copy,
`environment.py` brings it together.

    environment = RepoEnvironment()         # env.name = "repo"
"""
