"""Table reservations: dataclasses, `Optional`, Google docstrings."""

from dataclasses import asdict, dataclass, field

from rods.envs.tool_classes import ToolClasses


@dataclass
class Table:
    number: int
    seats: int
    room: str
    smoking: bool = False


@dataclass
class Booking:
    code: str
    guest: str
    table: int
    day: str
    time: str
    party: int
    phone: str | None = None
    notes: list[str] = field(default_factory=list)
    status: str = "confirmed"


class Trattoria:
    def __init__(self):
        self.tables: dict[int, Table] = {}
        self.bookings: dict[str, Booking] = {}
        self.waitlist: list[dict] = []
        self.counter = 100

    def load(self, config: dict):
        self.tables = {t["number"]: Table(**t) for t in config.get("tables", [])}
        self.bookings = {b["code"]: Booking(**b) for b in config.get("bookings", [])}
        self.waitlist = list(config.get("waitlist", []))
        self.counter = config.get("counter", 100)

    def check_availability(
        self, day: str, time: str, party: int, room: str | None = None
    ) -> list[dict]:
        """Finds the tables that are free at a given day and time.

        Args:
            day: The day of the visit, in the format YYYY-MM-DD.
            time: The time of the visit, for example 19:30.
            party: How many people are coming.
            room: The room in which the guests want to sit. All rooms if omitted.

        Returns:
            A list of free tables with number, seats and room.
        """
        busy = {
            b.table
            for b in self.bookings.values()
            if b.day == day and b.time == time and b.status == "confirmed"
        }
        return [
            asdict(t)
            for t in self.tables.values()
            if t.number not in busy and t.seats >= party and (room is None or t.room == room)
        ]

    def create_booking(
        self, guest: str, table: int, day: str, time: str, party: int, phone: str | None = None
    ) -> dict:
        """Creates a new booking and returns its code.

        Args:
            guest: Last name of the guest.
            table: Number of the table to book.
            day: The day of the visit, in the format YYYY-MM-DD.
            time: The time of the visit, for example 19:30.
            party: How many people are coming.
            phone: Phone number of the guest, if he left one.
        """
        if table not in self.tables:
            raise ValueError(f"No table {table}")
        if self.tables[table].seats < party:
            raise ValueError(f"Table {table} is too small for {party}")
        for b in self.bookings.values():
            if (b.table, b.day, b.time, b.status) == (table, day, time, "confirmed"):
                raise ValueError(f"Table {table} is already booked by {b.guest}")
        self.counter += 1
        code = f"TN{self.counter}"
        self.bookings[code] = Booking(code, guest, table, day, time, party, phone)
        return {"code": code, "table": table}

    def get_booking(self, code: str) -> dict:
        """Looks up a booking by its code.

        Args:
            code: The booking code, such as TN104.
        """
        return asdict(self.bookings[code])

    def find_bookings_of_guest(self, guest: str) -> list[str]:
        """Searches the codes of all bookings made under a name.

        Args:
            guest: Last name of the guest.
        """
        return [b.code for b in self.bookings.values() if b.guest == guest]

    def move_booking(self, code: str, day: str | None = None, time: str | None = None) -> dict:
        """Moves a booking to another day or another time.

        Args:
            code: The booking code, such as TN104.
            day: The new day. Unchanged if omitted.
            time: The new time. Unchanged if omitted.
        """
        b = self.bookings[code]
        b.day = day or b.day
        b.time = time or b.time
        return {"code": code, "day": b.day, "time": b.time}

    def change_party_size(self, code: str, party: int) -> dict:
        """Changes the number of people of a booking.

        Args:
            code: The booking code, such as TN104.
            party: The new number of people.
        """
        b = self.bookings[code]
        if self.tables[b.table].seats < party:
            raise ValueError("The table is too small")
        b.party = party
        return {"code": code, "party": party}

    def cancel_booking(self, code: str, reason: str | None = None) -> bool:
        """Cancels a booking.

        Args:
            code: The booking code, such as TN104.
            reason: Why the guest cancels.
        """
        b = self.bookings[code]
        if b.status == "cancelled":
            raise ValueError("already cancelled")
        b.status = "cancelled"
        if reason:
            b.notes.append(reason)
        return True

    def add_note(self, code: str, note: str) -> int:
        """Adds a note for the kitchen or the waiters to a booking.

        Args:
            code: The booking code, such as TN104.
            note: The text of the note, e.g. an allergy.

        Returns:
            Number of notes of the booking.
        """
        self.bookings[code].notes.append(note)
        return len(self.bookings[code].notes)

    def join_waitlist(self, guest: str, day: str, party: int) -> int:
        """Puts a guest on the waiting list of a day.

        Args:
            guest: Last name of the guest.
            day: The day of the visit, in the format YYYY-MM-DD.
            party: How many people are coming.

        Returns:
            Position on the waiting list.
        """
        self.waitlist.append({"guest": guest, "day": day, "party": party})
        return sum(1 for w in self.waitlist if w["day"] == day)


environment = ToolClasses("trattoria", [Trattoria])
