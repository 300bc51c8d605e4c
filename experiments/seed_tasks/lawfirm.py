"""Matters, deadlines and time sheets of a small law firm."""

from rods.envs.tool_classes import ToolClasses


class LawFirm:
    """Case management of a small law firm."""

    def __init__(
        self,
        matters: dict[str, dict] | None = None,
        lawyers: dict[str, dict] | None = None,
        deadlines: dict[str, dict] | None = None,
        today: str = "2026-03-02",
    ):
        self.matters = matters or {}
        self.lawyers = lawyers or {}
        self.deadlines = deadlines or {}
        self.today = today
        self.next_deadline = 100

    def open_matter(self, client: str, subject: str) -> dict:
        """Open a new matter for a client."""
        matter_id = f"M-{500 + len(self.matters)}"
        self.matters[matter_id] = {
            "client": client,
            "subject": subject,
            "status": "open",
            "lawyer": None,
            "hours": 0.0,
            "notes": [],
        }
        return {"matter_id": matter_id, "status": "open"}

    def show_matter(self, matter_id: str) -> dict:
        """Show the file of a matter."""
        return {"matter_id": matter_id, **self.matters[matter_id]}

    def list_matters(self, client: str) -> list[dict]:
        """List all matters of a client."""
        return [
            {"matter_id": k, "subject": m["subject"], "status": m["status"]}
            for k, m in self.matters.items()
            if m["client"] == client
        ]

    def assign_lawyer(self, matter_id: str, lawyer_id: str) -> dict:
        """Assign a lawyer to a matter."""
        if lawyer_id not in self.lawyers:
            raise ValueError(f"no lawyer {lawyer_id}")
        self.matters[matter_id]["lawyer"] = lawyer_id
        return {"matter_id": matter_id, "lawyer": lawyer_id}

    def log_hours(self, matter_id: str, hours: float) -> dict:
        """Log hours worked on a matter."""
        matter = self.matters[matter_id]
        if matter["status"] != "open":
            raise ValueError(f"matter {matter_id} is {matter['status']}")
        if hours <= 0:
            raise ValueError("hours must be positive")
        matter["hours"] += hours
        return {"matter_id": matter_id, "total_hours": matter["hours"]}

    def add_deadline(self, matter_id: str, due: str, what: str) -> dict:
        """Add a deadline to a matter."""
        if matter_id not in self.matters:
            raise ValueError(f"no matter {matter_id}")
        if due < self.today:
            raise ValueError(f"{due} is in the past")
        deadline_id = f"DL-{self.next_deadline}"
        self.next_deadline += 1
        self.deadlines[deadline_id] = {"matter": matter_id, "due": due, "what": what, "done": False}
        return {"deadline_id": deadline_id, "due": due}

    def move_deadline(self, deadline_id: str, due: str) -> dict:
        """Move a deadline to another day."""
        deadline = self.deadlines[deadline_id]
        if deadline["done"]:
            raise ValueError(f"{deadline_id} is already met")
        old, deadline["due"] = deadline["due"], due
        return {"deadline_id": deadline_id, "old": old, "due": due}

    def meet_deadline(self, deadline_id: str) -> dict:
        """Mark a deadline as met."""
        deadline = self.deadlines[deadline_id]
        if deadline["done"]:
            raise ValueError(f"{deadline_id} is already met")
        deadline["done"] = True
        return {"deadline_id": deadline_id, "done": True}

    def upcoming_deadlines(self, matter_id: str) -> list[dict]:
        """Get the open deadlines of a matter."""
        return [
            {"deadline_id": k, "due": d["due"], "what": d["what"]}
            for k, d in self.deadlines.items()
            if d["matter"] == matter_id and not d["done"]
        ]

    def add_note(self, matter_id: str, text: str) -> dict:
        """Add a note to the file of a matter."""
        self.matters[matter_id]["notes"].append(text)
        return {"matter_id": matter_id, "notes": len(self.matters[matter_id]["notes"])}

    def draft_invoice(self, matter_id: str) -> dict:
        """Draft an invoice for the hours of a matter."""
        matter = self.matters[matter_id]
        if not matter["lawyer"]:
            raise ValueError("no lawyer assigned, so no rate")
        rate = self.lawyers[matter["lawyer"]]["rate"]
        return {
            "matter_id": matter_id,
            "hours": matter["hours"],
            "amount": round(matter["hours"] * rate, 2),
        }

    def close_matter(self, matter_id: str) -> dict:
        """Close a matter and archive its file."""
        matter = self.matters[matter_id]
        if any(d["matter"] == matter_id and not d["done"] for d in self.deadlines.values()):
            raise ValueError(f"matter {matter_id} has open deadlines")
        matter["status"] = "closed"
        return {"matter_id": matter_id, "status": "closed"}


firm = ToolClasses("lawfirm", [LawFirm])
