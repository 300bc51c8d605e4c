"""tau2-bench: customers who talk with an agent, by the code of a user's checkout.

Owns the way between that code, which runs in a process of its own, and our rollouts. Tools, tasks,
policy, user simulator and evaluation are the checkout's.

    rules = make_suite("tau2-retail", config)      # evaluation.suite.folder is the checkout
"""
