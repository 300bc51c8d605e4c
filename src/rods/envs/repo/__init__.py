"""Repairing repositories: a working copy, a shell and an editor, and tests that nobody shows.

Owns nothing itself: `repositories/` are small repositories of our own, `mutations.py` and
`plant.py` put bugs into them, `checks.py` are the hidden tests, `world.py` is the working copy,
`stuck.py` sees an agent go in circles, `environment.py` brings it together.

    environment = RepoEnvironment()         # env.name = "repo"
"""
