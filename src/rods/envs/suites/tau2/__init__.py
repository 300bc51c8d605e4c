"""tau2-bench's retail tasks: customers who talk with an agent of a shop.

Owns the shop's tools, written by ourselves by what the released ones do, and the rules. Database,
tasks, policy and the instructions of who plays the customer are read from a user's checkout.

    rules = make_suite("tau2-retail", config)      # evaluation.suite.folder says where
"""
