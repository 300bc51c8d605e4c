"""An account book: entries in cents, balances, budgets and interest."""
