"""Small repositories of our own, in which bugs are planted, and calls that check them.

Owns nothing itself: each folder is a repository's package; `cases.txt` beside it holds calls with
what they must give. A working copy gets the package and some of the cases, as tests.
"""
