"""Writes the example's sixteen seed tasks: `python -m examples.library_loans.tasks`.

Each is a conversation with its ground truth: user messages, the calls that fulfil them, and the
state that the library is in at the start. Four leave a value open, three withhold a function.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rods.task import Provenance, Task, Turn, write_tasks
from rods.types import ToolCall, Value

PATH = Path(__file__).with_name("tasks.jsonl")

MEMBERS: dict[str, Any] = {
    "M-104": {"name": "Ada Park", "limit": 3, "fine": 0.0},
    "M-117": {"name": "Tomas Reyes", "limit": 2, "fine": 4.5},
    "M-128": {"name": "Lena Vogel", "limit": 4, "fine": 0.0},
    "M-135": {"name": "Omar Haddad", "limit": 3, "fine": 12.0},
}
BOOKS: dict[str, Any] = {
    "B-12": {"title": "River Maps", "author": "Ines Kahn", "section": "travel", "copies": 2},
    "B-27": {"title": "The Salt Year", "author": "Paul Okoro", "section": "fiction", "copies": 3},
    "B-31": {"title": "Small Engines", "author": "Rita Moss", "section": "science", "copies": 1},
    "B-46": {"title": "Harbour Towns", "author": "Ines Kahn", "section": "history", "copies": 2},
    "B-58": {"title": "Night Trains", "author": "Jon Field", "section": "travel", "copies": 1},
}
LOANS: dict[str, Any] = {
    "L-71": {"member_id": "M-128", "book_id": "B-27", "due_day": 92},
    "L-74": {"member_id": "M-104", "book_id": "B-46", "due_day": 108},
    "L-80": {"member_id": "M-135", "book_id": "B-12", "due_day": 97},
}
RESERVATIONS: dict[str, Any] = {"R-33": {"member_id": "M-117", "book_id": "B-58"}}


def call(name: str, /, **arguments: Value) -> ToolCall:
    """A ground-truth call."""
    return ToolCall(name, arguments)


def turn(user: str, *calls: ToolCall, without: str = "") -> Turn:
    """A turn; `without` is withheld in it."""
    return Turn(user, calls, (without,) if without else ())


def scenario(name: str, category: str, config: dict[str, Any], *turns: Turn) -> Task:
    """One task, a scenario of its own, in a library that starts as `config` says."""
    world: dict[str, Any] = {"classes": ["Library"], "initial_config": {"Library": config}}
    return Task("library", category, turns, world, Provenance(name, name))


def seed(number: int, category: str, today: int, *turns: Turn) -> Task:
    """One seed task."""
    config: dict[str, Any] = {
        "members": MEMBERS,
        "books": BOOKS,
        "loans": LOANS,
        "reservations": RESERVATIONS,
        "today": today,
        "next_number": 300 + 10 * number,
    }
    return scenario(f"library_{number}", category, config, *turns)


def seeds() -> list[Task]:
    """The sixteen seed tasks."""
    return [
        seed(
            1, "base", 100,
            turn("Which books by Ines Kahn do we have?", call("find_books", author="Ines Kahn")),
            turn("Lend book B-12 to member M-104 for 21 days, please.",
                 call("lend", member_id="M-104", book_id="B-12", days=21)),
            turn("She travels far: extend the loan you just made by 7 days.",
                 call("renew", loan_id="L-310", days=7)),
        ),
        seed(
            2, "base", 102,
            turn("Show me which loans are late today.", call("late_loans")),
            turn("Loan L-71 came in this morning. Take that book back, then show me the account of "
                 "member M-128.",
                 call("give_back", loan_id="L-71"), call("member_account", member_id="M-128")),
        ),
        seed(
            3, "base", 99,
            turn("A new reader, Nora Silva, wants to join. Register her with a limit of 2 books.",
                 call("register_member", name="Nora Silva", limit=2)),
            turn("Reserve book B-31 for the new member.",
                 call("reserve", member_id="M-330", book_id="B-31")),
            turn("She changed her mind: cancel that reservation. And what does the record of book "
                 "B-46 say?",
                 call("cancel_reservation", reservation_id="R-331"),
                 call("book_details", book_id="B-46")),
        ),
        seed(
            4, "base", 101,
            turn("Member M-135 pays 12 off his fine, and takes book B-58 home for 10 days.",
                 call("pay_fine", member_id="M-135", amount=12.0),
                 call("lend", member_id="M-135", book_id="B-58", days=10)),
            turn("Book B-31 is asked for a lot. Add 3 copies of it.",
                 call("add_copies", book_id="B-31", count=3)),
        ),
        seed(
            5, "miss_func", 100,
            turn("How is the account of member M-117?",
                 call("member_account", member_id="M-117"), without="move_book"),
            turn("Book B-46 stands on the wrong shelf. Move it to the travel section.",
                 without="move_book"),
            turn("", call("move_book", book_id="B-46", section="travel")),
            turn("What is there in the travel section now?", call("find_books", section="travel")),
        ),
        seed(
            6, "miss_func", 103,
            turn("Show me the record of book B-27.",
                 call("book_details", book_id="B-27"), without="reserve"),
            turn("Reserve book B-27 for member M-104.", without="reserve"),
            turn("", call("reserve", member_id="M-104", book_id="B-27")),
            turn("Member M-128 brought loan L-71 back as well. Take it in.",
                 call("give_back", loan_id="L-71")),
        ),
        seed(
            7, "miss_param", 100,
            turn("Which loans are overdue today?", call("late_loans")),
            turn("Please extend loan L-74 by a few days."),
            turn("By 12 days.", call("renew", loan_id="L-74", days=12)),
            turn("Now lend book B-27 to member M-104.",
                 call("lend", member_id="M-104", book_id="B-27")),
        ),
        seed(
            8, "miss_param", 98,
            turn("Show me the account of member M-117.", call("member_account", member_id="M-117")),
            turn("That member wants to reserve a book."),
            turn("It is book B-31.", call("reserve", member_id="M-117", book_id="B-31")),
            turn("Fine. Cancel the reservation R-33 then.",
                 call("cancel_reservation", reservation_id="R-33")),
        ),
        seed(
            9, "base", 105,
            turn("Who is late with a book? List the loans.", call("late_loans")),
            turn("Member M-135 is here and hands in loan L-80. Take it back.",
                 call("give_back", loan_id="L-80")),
            turn("What does his account say now?", call("member_account", member_id="M-135")),
        ),
        seed(
            10, "base", 96,
            turn("What have we got in the travel section?", call("find_books", section="travel")),
            turn("Two more copies of book B-58 have arrived, add them.",
                 call("add_copies", book_id="B-58", count=2)),
            turn("Good. One of them goes to member M-128 for 30 days.",
                 call("lend", member_id="M-128", book_id="B-58", days=30)),
        ),
        seed(
            11, "base", 104,
            turn("Sign up Jonas Weber. He may have 5 books at a time.",
                 call("register_member", name="Jonas Weber", limit=5)),
            turn("He takes book B-12 for 14 days and book B-46 for 7 days.",
                 call("lend", member_id="M-410", book_id="B-12", days=14),
                 call("lend", member_id="M-410", book_id="B-46", days=7)),
        ),
        seed(
            12, "base", 100,
            turn("Member M-117 pays 2.5 of the fine today.",
                 call("pay_fine", member_id="M-117", amount=2.5)),
            turn("How much is still open on that account?",
                 call("member_account", member_id="M-117")),
            turn("All right. Put a reservation on book B-46 for the same member.",
                 call("reserve", member_id="M-117", book_id="B-46")),
        ),
        seed(
            13, "base", 110,
            turn("Book B-58 is really a novel. Move it to the fiction section.",
                 call("move_book", book_id="B-58", section="fiction")),
            turn("List the fiction section for me, and give me the details of book B-27.",
                 call("find_books", section="fiction"), call("book_details", book_id="B-27")),
        ),
        seed(
            14, "miss_func", 101,
            turn("Is there anything by Jon Field?",
                 call("find_books", author="Jon Field"), without="renew"),
            turn("Extend loan L-74 by 14 days.", without="renew"),
            turn("", call("renew", loan_id="L-74", days=14)),
            turn("And what is on the account of member M-104?",
                 call("member_account", member_id="M-104")),
        ),
        seed(
            15, "miss_param", 99,
            turn("I need the details of book B-31.", call("book_details", book_id="B-31")),
            turn("Member M-128 would like to borrow a book for 5 days."),
            turn("Book B-31, please.", call("lend", member_id="M-128", book_id="B-31", days=5)),
        ),
        seed(
            16, "miss_param", 102,
            turn("What stands in the history section?", call("find_books", section="history")),
            turn("We bought some more copies of book B-27, add them."),
            turn("Four.", call("add_copies", book_id="B-27", count=4)),
            turn("Then lend it to member M-104 for 10 days.",
                 call("lend", member_id="M-104", book_id="B-27", days=10)),
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    print(f"{write_tasks(PATH, seeds())} tasks in {PATH}")
