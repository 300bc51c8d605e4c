"""Adapters to trainers, protocols, trackers and file formats that others own.

The core never imports them; each is loaded when a command or a setting names it.
"""
