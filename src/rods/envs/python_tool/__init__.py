"""`python_tool`: questions that are answered with a Python interpreter.

environment = PythonToolEnvironment()           # rods.envs.python_tool.environment
"""
