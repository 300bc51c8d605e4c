"""Entry point: train a bundled policy from random weights.

PYTHONPATH=tools python -m pretrain --out tiny-search --kind search
"""

import sys

from pretrain.command import main

if __name__ == "__main__":
    sys.exit(main())
