from datetime import date
from typing import Literal

from rods.envs.tool_classes import ToolClasses

Fuel = Literal["diesel", "petrol"]


class Marina:
    """A small marina: berths, boats, lifts out of the water, fuel and invoices."""

    def __init__(
        self,
        berths: dict[str, dict] | None = None,
        boats: dict[str, dict] | None = None,
        invoices: dict[str, dict] | None = None,
        lifts: dict[str, dict] | None = None,
    ):
        self.berths = berths or {}
        self.boats = boats or {}
        self.invoices = invoices or {}
        self.lifts = lifts or {}

    def _boat(self, boat_id: str) -> dict:
        if boat_id not in self.boats:
            raise KeyError(f"there is no boat {boat_id}")
        return self.boats[boat_id]

    def find_berths(self, length: float) -> list[dict]:
        """List the free berths for a boat length.

        Args:
            length: Boat length in metres.
        """
        return [
            {"berth_id": k, "length": b["length"]}
            for k, b in self.berths.items()
            if not b.get("boat_id") and b["length"] >= length
        ]

    def show_boat(self, boat_id: str) -> dict:
        """Show the record of a boat.

        Args:
            boat_id: Which boat, such as B-900.
        """
        return {"boat_id": boat_id, **self._boat(boat_id)}

    def assign_berth(self, berth_id: str, boat_id: str) -> dict:
        """Assign a berth to a boat.

        Args:
            berth_id: Which berth, such as P-90.
            boat_id: Which boat, such as B-900.
        """
        boat = self._boat(boat_id)
        berth = self.berths[berth_id]
        if berth.get("boat_id"):
            raise ValueError(f"berth {berth_id} is occupied by {berth['boat_id']}")
        if berth["length"] < boat["length"]:
            raise ValueError(f"berth {berth_id} is too short for {boat_id}")
        berth["boat_id"] = boat_id
        return {"berth_id": berth_id, "boat_id": boat_id}

    def release_berth(self, berth_id: str) -> dict:
        """Release a berth.

        Args:
            berth_id: Which berth, such as P-90.
        """
        if not self.berths[berth_id].get("boat_id"):
            raise ValueError(f"berth {berth_id} is already free")
        return {"berth_id": berth_id, "boat_id": self.berths[berth_id].pop("boat_id")}

    def order_fuel(self, boat_id: str, litres: int, fuel: Fuel = "diesel") -> dict:
        """Order fuel for a boat.

        Args:
            boat_id: Which boat, such as B-900.
            litres: How many litres.
            fuel: Kind of fuel.
        """
        self._boat(boat_id)
        number = f"I-{len(self.invoices) + 501}"
        self.invoices[number] = {
            "boat_id": boat_id,
            "amount": round(litres * 1.9, 2),
            "what": fuel,
            "paid": False,
        }
        return {"invoice_id": number, "amount": self.invoices[number]["amount"]}

    def schedule_lift(self, boat_id: str, day: date) -> dict:
        """Schedule a lift of a boat for a day.

        Args:
            boat_id: Which boat, such as B-900.
            day: Day of the lift, YYYY-MM-DD.
        """
        self._boat(boat_id)
        for key, lift in self.lifts.items():
            if lift["day"] == day.isoformat():
                raise ValueError(f"the crane is taken on {day} by lift {key}")
        key = f"L-{len(self.lifts) + 71}"
        self.lifts[key] = {"boat_id": boat_id, "day": day.isoformat()}
        return {"lift_id": key, "day": day.isoformat()}

    def move_lift(self, lift_id: str, day: date) -> dict:
        """Move a lift to another day.

        Args:
            lift_id: Which lift, such as L-90.
            day: New day of the lift, YYYY-MM-DD.
        """
        self.lifts[lift_id]["day"] = day.isoformat()
        return {"lift_id": lift_id, "day": day.isoformat()}

    def list_invoices(self, boat_id: str) -> list[dict]:
        """List the unpaid invoices of a boat.

        Args:
            boat_id: Which boat, such as B-900.
        """
        self._boat(boat_id)
        return [
            {"invoice_id": k, "amount": i["amount"], "what": i["what"]}
            for k, i in self.invoices.items()
            if i["boat_id"] == boat_id and not i["paid"]
        ]

    def pay_invoice(self, invoice_id: str, card: str) -> dict:
        """Pay an invoice with a card.

        Args:
            invoice_id: Which invoice, such as I-900.
            card: Last four digits of the card.
        """
        invoice = self.invoices[invoice_id]
        if invoice["paid"]:
            raise ValueError(f"invoice {invoice_id} is already paid")
        invoice["paid"] = True
        invoice["card"] = card
        return {"invoice_id": invoice_id, "amount": invoice["amount"]}

    def report_damage(self, boat_id: str, note: str) -> dict:
        """Report damage to a boat.

        Args:
            boat_id: Which boat, such as B-900.
            note: What is damaged, such as "torn sail".
        """
        self._boat(boat_id).setdefault("damage", []).append(note)
        return {"boat_id": boat_id, "reports": len(self.boats[boat_id]["damage"])}


marina = ToolClasses("marina", [Marina])
