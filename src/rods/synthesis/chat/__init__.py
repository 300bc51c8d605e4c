"""The client of a chat server. Knows nothing of tasks.

from rods.synthesis.chat.client import ChatClient
"""
