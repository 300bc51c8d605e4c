from rods.envs.tool_classes import ToolClasses


class FireBrigade:
    """Volunteer fire brigade: people, engines, call-outs."""

    def __init__(
        self,
        members: dict | None = None,
        engines: dict | None = None,
        callouts: dict | None = None,
        shifts: dict | None = None,
    ):
        self.members = members or {}
        self.engines = engines or {}
        self.callouts = callouts or {}
        self.shifts = shifts or {}

    def raise_alarm(self, address: str, kind: str = "fire") -> dict:
        """Raise an alarm. kind is "fire", "flood" or "traffic accident"."""
        callout_id = f"A{len(self.callouts) + 61}"
        self.callouts[callout_id] = {"address": address, "kind": kind, "engines": [], "open": True}
        return {"callout_id": callout_id}

    def send_engine(self, engine_id: str, callout_id: str) -> dict:
        """Send an engine to a call-out."""
        engine = self.engines[engine_id]
        if engine["status"] != "ready":
            raise ValueError(f"{engine_id} is {engine['status']}")
        if not self.callouts[callout_id]["open"]:
            raise ValueError("call-out is over")
        engine["status"] = "out"
        self.callouts[callout_id]["engines"].append(engine_id)
        return {"engine_id": engine_id, "address": self.callouts[callout_id]["address"]}

    def recall_engine(self, engine_id: str) -> dict:
        """Call an engine back to the station."""
        if self.engines[engine_id]["status"] != "out":
            raise ValueError("not out")
        self.engines[engine_id]["status"] = "ready"
        return {"engine_id": engine_id, "status": "ready"}

    def engine_status(self, engine_id: str) -> dict:
        """Status, crew and water of an engine."""
        return dict(self.engines[engine_id])

    def refill_tank(self, engine_id: str, litres: int) -> dict:
        """Refill the water tank of an engine."""
        engine = self.engines[engine_id]
        if engine["water"] + litres > engine["tank"]:
            raise ValueError("more than the tank holds")
        engine["water"] += litres
        return {"engine_id": engine_id, "water": engine["water"]}

    def take_out_of_service(self, engine_id: str) -> dict:
        """Take an engine out of service."""
        if self.engines[engine_id]["status"] == "out":
            raise ValueError("engine is out")
        self.engines[engine_id]["status"] = "workshop"
        return {"engine_id": engine_id, "status": "workshop"}

    def close_callout(self, callout_id: str) -> dict:
        """Close a call-out."""
        callout = self.callouts[callout_id]
        if not callout["open"]:
            raise ValueError("already closed")
        callout["open"] = False
        for engine_id in callout["engines"]:
            self.engines[engine_id]["status"] = "ready"
        return {"callout_id": callout_id, "engines": list(callout["engines"])}

    def show_callout(self, callout_id: str) -> dict:
        """Show a call-out."""
        return dict(self.callouts[callout_id])

    def add_to_shift(self, member_id: str, shift: str) -> dict:
        """Put a member on a shift."""
        if member_id not in self.members:
            raise ValueError("who?")
        crew = self.shifts[shift]["crew"]
        if member_id in crew:
            raise ValueError("already on this shift")
        crew.append(member_id)
        return {"shift": shift, "crew": len(crew)}

    def drop_from_shift(self, member_id: str, shift: str) -> dict:
        """Take a member off a shift."""
        self.shifts[shift]["crew"].remove(member_id)
        return {"shift": shift, "crew": len(self.shifts[shift]["crew"])}

    def who_is_on(self, shift: str) -> dict:
        """List who is on a shift."""
        return {
            "shift": shift,
            "crew": [self.members[m]["name"] for m in self.shifts[shift]["crew"]],
        }

    def log_training(self, member_id: str, course: str, hours: int) -> dict:
        """Record a training of a member. Courses are e.g. "breathing apparatus", "ladders", "first aid"."""  # noqa: E501
        self.members[member_id]["training"].append({"course": course, "hours": hours})
        return {
            "member_id": member_id,
            "total_hours": sum(t["hours"] for t in self.members[member_id]["training"]),
        }

    def training_record(self, member_id: str) -> list:
        """Show the training record of a member."""
        return list(self.members[member_id]["training"])


brigade = ToolClasses("brigade", [FireBrigade])
