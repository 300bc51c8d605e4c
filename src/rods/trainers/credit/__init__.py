"""Credit: an advantage for each sampled token, where one for the whole trajectory says too little.

* `turns` - that of its turn, among members that entered the turn alike
* `calls` - that of the whole, and besides, on a step's tokens, what the step's calls were worth
* `matching` - which call stands for which wanted one, and how much they agree
* `peers` - what both share: sets of peers compared, values by step told by token

`rods.trainers.collect` asks for one of them; the arithmetic of a comparison is `advantages`.
"""
