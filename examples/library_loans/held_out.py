"""Writes the tasks that judge an agent: `python -m examples.library_loans.held_out`.

Twenty-four conversations in another branch of the library, with other members, books, loans and
wording than in `tasks.py`, and the eight seed tasks that `smollm2.toml` holds out. Nothing trains
on them. Of the 32, seven withhold a function and six leave a value open.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from examples.library_loans.tasks import call, scenario, seeds, turn

from rods.task import Task, Turn, write_tasks

PATH = Path(__file__).with_name("held_out.jsonl")
SEEDS = {f"library_{number}" for number in (2, 3, 5, 9, 12, 13, 14, 15)}
"""Scenarios of `tasks.py` that a share of 0.5 holds out."""

BRANCH: dict[str, Any] = {
    "members": {
        "M-203": {"name": "Grace Lund", "limit": 5, "fine": 0.0},
        "M-211": {"name": "Pavel Novak", "limit": 2, "fine": 7.5},
        "M-226": {"name": "Aisha Bello", "limit": 3, "fine": 0.0},
        "M-240": {"name": "Hugo Lopez", "limit": 4, "fine": 3.0},
        "M-258": {"name": "Mei Tan", "limit": 2, "fine": 0.0},
    },
    "books": {
        "B-61": {"title": "Cold Harvest", "author": "Eva Stone", "section": "fiction", "copies": 2},
        "B-64": {"title": "Iron and Ice", "author": "Sam Adeyemi", "section": "science",
                 "copies": 4},
        "B-73": {"title": "Walking West", "author": "Eva Stone", "section": "travel", "copies": 1},
        "B-77": {"title": "The Old Canals", "author": "Clara Boyd", "section": "history",
                 "copies": 3},
        "B-85": {"title": "A Year of Rain", "author": "Clara Boyd", "section": "fiction",
                 "copies": 2},
        "B-92": {"title": "Light Metals", "author": "Sam Adeyemi", "section": "science",
                 "copies": 1},
    },
    "loans": {
        "L-15": {"member_id": "M-203", "book_id": "B-64", "due_day": 54},
        "L-18": {"member_id": "M-226", "book_id": "B-77", "due_day": 47},
        "L-22": {"member_id": "M-240", "book_id": "B-61", "due_day": 60},
        "L-29": {"member_id": "M-203", "book_id": "B-85", "due_day": 45},
    },
    "reservations": {
        "R-5": {"member_id": "M-226", "book_id": "B-73"},
        "R-8": {"member_id": "M-258", "book_id": "B-61"},
    },
}  # fmt: skip


def branch(number: int, category: str, today: int, *turns: Turn) -> Task:
    """One task of the other branch; its next new member, loan or reservation is 500 + number."""
    config = BRANCH | {"today": today, "next_number": 500 + number}
    return scenario(f"branch_{number}", category, config, *turns)


def tasks() -> list[Task]:
    """The thirty-two tasks."""
    held_out = [task for task in seeds() if task.provenance.scenario in SEEDS]
    return [
        branch(
            1, "base", 50,
            turn("Do we own anything by Clara Boyd?", call("find_books", author="Clara Boyd")),
            turn("M-258 would like B-85 for 20 days.",
                 call("lend", member_id="M-258", book_id="B-85", days=20)),
            turn("And what are the details of B-77?", call("book_details", book_id="B-77")),
        ),
        branch(
            2, "base", 51,
            turn("Are any loans overdue?", call("late_loans")),
            turn("L-18 has just been returned, please check it in.",
                 call("give_back", loan_id="L-18")),
            turn("M-226 also wants B-61 reserved.",
                 call("reserve", member_id="M-226", book_id="B-61")),
        ),
        branch(
            3, "base", 48,
            turn("Please open the account of M-203.", call("member_account", member_id="M-203")),
            turn("Give her 10 more days on loan L-15.", call("renew", loan_id="L-15", days=10)),
            turn("She also takes B-92 for 7 days.",
                 call("lend", member_id="M-203", book_id="B-92", days=7)),
        ),
        branch(
            4, "base", 52,
            turn("Pavel Novak, M-211, settles his whole fine of 7.5.",
                 call("pay_fine", member_id="M-211", amount=7.5)),
            turn("Now he can take B-64 with him, for 15 days.",
                 call("lend", member_id="M-211", book_id="B-64", days=15)),
        ),
        branch(
            5, "base", 49,
            turn("Register Ruth Okafor as a member, with at most 4 books.",
                 call("register_member", name="Ruth Okafor", limit=4)),
            turn("Lend B-73 to her for 12 days.",
                 call("lend", member_id="M-505", book_id="B-73", days=12)),
            turn("Show me her account.", call("member_account", member_id="M-505")),
        ),
        branch(
            6, "base", 55,
            turn("Which science books are there?", call("find_books", section="science")),
            turn("B-92 should have 2 more copies. Please add them.",
                 call("add_copies", book_id="B-92", count=2)),
        ),
        branch(
            7, "base", 46,
            turn("B-73 belongs in history, not in travel. Move it.",
                 call("move_book", book_id="B-73", section="history")),
            turn("What do we have in history now?", call("find_books", section="history")),
            turn("Reserve B-77 for M-240.", call("reserve", member_id="M-240", book_id="B-77")),
        ),
        branch(
            8, "base", 50,
            turn("M-258 no longer needs reservation R-8. Cancel it.",
                 call("cancel_reservation", reservation_id="R-8")),
            turn("Instead, lend B-61 to M-258 for 18 days.",
                 call("lend", member_id="M-258", book_id="B-61", days=18)),
        ),
        branch(
            9, "base", 57,
            turn("List everything that is late.", call("late_loans")),
            turn("Both loans of Grace Lund come back today: L-15 and L-29.",
                 call("give_back", loan_id="L-15"), call("give_back", loan_id="L-29")),
            turn("What does M-203 owe us?", call("member_account", member_id="M-203")),
        ),
        branch(
            10, "base", 44,
            turn("How many copies of B-64 are free?", call("book_details", book_id="B-64")),
            turn("Put a reservation on it for M-211.",
                 call("reserve", member_id="M-211", book_id="B-64")),
            turn("He pays 5 of his fine as well.",
                 call("pay_fine", member_id="M-211", amount=5.0)),
        ),
        branch(
            11, "base", 53,
            turn("Extend L-22 by 6 days.", call("renew", loan_id="L-22", days=6)),
            turn("Hugo Lopez, M-240, also pays his fine of 3.",
                 call("pay_fine", member_id="M-240", amount=3.0)),
            turn("Show his account.", call("member_account", member_id="M-240")),
        ),
        branch(
            12, "base", 50,
            turn("Which books did Sam Adeyemi write?", call("find_books", author="Sam Adeyemi")),
            turn("M-226 borrows B-92 for 21 days and B-64 for 10 days.",
                 call("lend", member_id="M-226", book_id="B-92", days=21),
                 call("lend", member_id="M-226", book_id="B-64", days=10)),
        ),
        branch(
            13, "base", 47,
            turn("Add 5 copies of B-61 to the shelf.",
                 call("add_copies", book_id="B-61", count=5)),
            turn("Then show me what its record says.", call("book_details", book_id="B-61")),
            turn("One copy goes to M-203 for 30 days.",
                 call("lend", member_id="M-203", book_id="B-61", days=30)),
        ),
        branch(
            14, "base", 51,
            turn("Cancel reservation R-5, please.",
                 call("cancel_reservation", reservation_id="R-5")),
            turn("Now B-73 can go to M-258 for 9 days.",
                 call("lend", member_id="M-258", book_id="B-73", days=9)),
            turn("She asks for 5 days more already. Extend that loan.",
                 call("renew", loan_id="L-514", days=5)),
        ),
        branch(
            15, "miss_func", 50,
            turn("Look up B-85 for me.",
                 call("book_details", book_id="B-85"), without="add_copies"),
            turn("Three new copies of it came in. Add them.", without="add_copies"),
            turn("", call("add_copies", book_id="B-85", count=3)),
            turn("Lend one to M-226 for 14 days.",
                 call("lend", member_id="M-226", book_id="B-85", days=14)),
        ),
        branch(
            16, "miss_func", 49,
            turn("What is on the account of M-211?",
                 call("member_account", member_id="M-211"), without="pay_fine"),
            turn("He wants to pay 2.5 of it.", without="pay_fine"),
            turn("", call("pay_fine", member_id="M-211", amount=2.5)),
        ),
        branch(
            17, "miss_func", 52,
            turn("Show me the fiction shelf.",
                 call("find_books", section="fiction"), without="lend"),
            turn("M-258 takes B-61 for 11 days.", without="lend"),
            turn("", call("lend", member_id="M-258", book_id="B-61", days=11)),
            turn("Please renew L-22 by 4 days.", call("renew", loan_id="L-22", days=4)),
        ),
        branch(
            18, "miss_func", 56,
            turn("Which loans are late today?", call("late_loans"), without="give_back"),
            turn("L-29 lies here on the desk. Check it in.", without="give_back"),
            turn("", call("give_back", loan_id="L-29")),
            turn("Now show me the account of M-203.", call("member_account", member_id="M-203")),
        ),
        branch(
            19, "miss_func", 45,
            turn("Reserve B-92 for M-203.",
                 call("reserve", member_id="M-203", book_id="B-92"),
                 without="cancel_reservation"),
            turn("And R-8 is no longer needed, cancel it.", without="cancel_reservation"),
            turn("", call("cancel_reservation", reservation_id="R-8")),
        ),
        branch(
            20, "miss_param", 50,
            turn("Who is late?", call("late_loans")),
            turn("Loan L-15 needs some more time. Extend it."),
            turn("By 8 days.", call("renew", loan_id="L-15", days=8)),
            turn("And show me B-64.", call("book_details", book_id="B-64")),
        ),
        branch(
            21, "miss_param", 48,
            turn("A new reader wants to join. Register him, please."),
            turn("Dan Kimura, with a limit of 2.",
                 call("register_member", name="Dan Kimura", limit=2)),
            turn("He takes B-77 for 16 days.",
                 call("lend", member_id="M-521", book_id="B-77", days=16)),
        ),
        branch(
            22, "miss_param", 51,
            turn("Let me see the account of M-240.", call("member_account", member_id="M-240")),
            turn("He pays part of his fine."),
            turn("1.5, he says.", call("pay_fine", member_id="M-240", amount=1.5)),
            turn("Reserve B-85 for him, too.",
                 call("reserve", member_id="M-240", book_id="B-85")),
        ),
        branch(
            23, "miss_param", 50,
            turn("Which travel books do we have?", call("find_books", section="travel")),
            turn("B-77 should stand in another section. Move it."),
            turn("In travel.", call("move_book", book_id="B-77", section="travel")),
        ),
        branch(
            24, "miss_param", 53,
            turn("Somebody brought a book back. Take it in, please."),
            turn("It is loan L-22.", call("give_back", loan_id="L-22")),
            turn("Lend the same book, B-61, to M-258 for 13 days.",
                 call("lend", member_id="M-258", book_id="B-61", days=13)),
        ),
        *held_out,
    ]  # fmt: skip


if __name__ == "__main__":
    print(f"{write_tasks(PATH, tasks())} tasks in {PATH}")
