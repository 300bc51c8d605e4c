"""The lending desk of a library: members, books, loans, reservations, fines.

An ordinary Python class. It knows nothing of RODS, but for the last line, which hosts it. What
makes it a good tool world: type hints, docstrings, ids that are counted instead of drawn, and a
clock that is an attribute instead of the computer's.

    desk = Library(members={"M-104": {"name": "Ada Park", "limit": 2, "fine": 0.0}})
    desk.register_member("Lena Vogel")                      # {"member_id": "M-1", "limit": 3}
"""

from __future__ import annotations

from typing import Any, Literal

from rods.envs.tool_classes import ToolClasses

Section = Literal["fiction", "science", "history", "travel"]
Record = dict[str, Any]


class Library:
    """A day is a number; `today` moves only when it is told to."""

    def __init__(
        self,
        members: dict[str, Record] | None = None,
        books: dict[str, Record] | None = None,
        loans: dict[str, Record] | None = None,
        reservations: dict[str, Record] | None = None,
        today: int = 100,
        next_number: int = 1,
    ):
        self.members = members or {}
        self.books = books or {}
        self.loans = loans or {}
        self.reservations = reservations or {}
        self.today = today
        self.next_number = next_number

    def find_books(self, author: str | None = None, section: Section | None = None) -> list[Record]:
        """List the books of the library.

        Args:
            author: Only books by this author.
            section: Only books of this section.
        """
        return [
            {"book_id": key, "title": book["title"], "free": self._free(key)}
            for key, book in self.books.items()
            if author in (None, book["author"]) and section in (None, book["section"])
        ]

    def book_details(self, book_id: str) -> Record:
        """Show the record of a book.

        Args:
            book_id: Number of the book, such as B-12.
        """
        return {**self._book(book_id), "free": self._free(book_id)}

    def member_account(self, member_id: str) -> Record:
        """Show the account of a member: open loans and fines.

        Args:
            member_id: Number on the member's card, such as M-104.
        """
        account = self._member(member_id)
        loans = [key for key, loan in self.loans.items() if loan["member_id"] == member_id]
        return {"name": account["name"], "loans": loans, "fine": account["fine"]}

    def register_member(self, name: str, limit: int = 3) -> Record:
        """Register a new member under a name.

        Args:
            name: Full name.
            limit: How many books the member may have at once.
        """
        if not 1 <= limit <= 10:
            raise ValueError("the limit must be from 1 to 10")
        member_id = self._number("M")
        self.members[member_id] = {"name": name, "limit": limit, "fine": 0.0}
        return {"member_id": member_id, "limit": limit}

    def lend(self, member_id: str, book_id: str, days: int = 14) -> Record:
        """Lend a book to a member.

        Args:
            member_id: Who takes it.
            book_id: What is taken.
            days: Length of the loan.
        """
        member, _ = self._member(member_id), self._book(book_id)
        held = [loan for loan in self.loans.values() if loan["member_id"] == member_id]
        if member["fine"] > 0:
            raise ValueError(f"member {member_id} must first pay {member['fine']:.2f}")
        if len(held) >= member["limit"]:
            raise ValueError(f"member {member_id} has {len(held)} books already")
        if self._free(book_id) < 1:
            raise ValueError(f"no copy of book {book_id} is free")
        if not 1 <= days <= 60:
            raise ValueError("a loan takes 1 to 60 days")
        loan_id, due = self._number("L"), self.today + days
        self.loans[loan_id] = {"member_id": member_id, "book_id": book_id, "due_day": due}
        return {"loan_id": loan_id, "due_day": due}

    def renew(self, loan_id: str, days: int) -> Record:
        """Extend a loan by some days.

        Args:
            loan_id: Number of the loan.
            days: How much longer it runs.
        """
        loan = self._loan(loan_id)
        if not 1 <= days <= 30:
            raise ValueError("a loan is renewed for 1 to 30 days")
        loan["due_day"] += days
        return {"loan_id": loan_id, "due_day": loan["due_day"]}

    def give_back(self, loan_id: str) -> Record:
        """Take back the book of a loan; a late one costs 0.50 a day.

        Args:
            loan_id: Number of the loan.
        """
        loan = self._loan(loan_id)
        late = max(0, self.today - loan["due_day"])
        self.members[loan["member_id"]]["fine"] += 0.5 * late
        del self.loans[loan_id]
        return {"book_id": loan["book_id"], "late_days": late, "fine": 0.5 * late}

    def reserve(self, member_id: str, book_id: str) -> Record:
        """Reserve a book for a member.

        Args:
            member_id: Who wants it.
            book_id: What is wanted.
        """
        self._member(member_id)
        self._book(book_id)
        reservation_id = self._number("R")
        self.reservations[reservation_id] = {"member_id": member_id, "book_id": book_id}
        return {"reservation_id": reservation_id, "waiting": len(self.reservations)}

    def cancel_reservation(self, reservation_id: str) -> Record:
        """Cancel a reservation.

        Args:
            reservation_id: Number of the reservation.
        """
        if reservation_id not in self.reservations:
            raise KeyError(f"there is no reservation {reservation_id}")
        gone = self.reservations.pop(reservation_id)
        return {"cancelled": reservation_id, "book_id": gone["book_id"]}

    def pay_fine(self, member_id: str, amount: float) -> Record:
        """Pay an amount off the fine of a member.

        Args:
            member_id: Whose fine.
            amount: How much is paid.
        """
        member = self._member(member_id)
        if not 0 < amount <= member["fine"]:
            raise ValueError(f"member {member_id} owes {member['fine']:.2f}")
        member["fine"] = round(member["fine"] - amount, 2)
        return {"paid": amount, "fine": member["fine"]}

    def add_copies(self, book_id: str, count: int) -> Record:
        """Add copies of a book to the shelf.

        Args:
            book_id: Which book.
            count: How many copies were bought.
        """
        if not 1 <= count <= 20:
            raise ValueError("from 1 to 20 copies can be added")
        self._book(book_id)["copies"] += count
        return {"book_id": book_id, "free": self._free(book_id)}

    def move_book(self, book_id: str, section: Section) -> Record:
        """Move a book to another section.

        Args:
            book_id: Which book.
            section: Where it belongs from now on.
        """
        book = self._book(book_id)
        before, book["section"] = book["section"], section
        return {"book_id": book_id, "before": before, "section": section}

    def late_loans(self) -> list[Record]:
        """List the loans that are overdue today."""
        return [
            {
                "loan_id": key,
                "member_id": loan["member_id"],
                "late_days": self.today - loan["due_day"],
            }
            for key, loan in self.loans.items()
            if loan["due_day"] < self.today
        ]

    def _book(self, book_id: str) -> Record:
        if book_id not in self.books:
            raise KeyError(f"there is no book {book_id}")
        return self.books[book_id]

    def _member(self, member_id: str) -> Record:
        if member_id not in self.members:
            raise KeyError(f"there is no member {member_id}")
        return self.members[member_id]

    def _loan(self, loan_id: str) -> Record:
        if loan_id not in self.loans:
            raise KeyError(f"there is no loan {loan_id}")
        return self.loans[loan_id]

    def _free(self, book_id: str) -> int:
        lent = sum(loan["book_id"] == book_id for loan in self.loans.values())
        return self.books[book_id]["copies"] - lent

    def _number(self, letter: str) -> str:
        number, self.next_number = self.next_number, self.next_number + 1
        return f"{letter}-{number}"


library = ToolClasses("library", [Library])
