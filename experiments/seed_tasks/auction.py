"""The back office of an auction house."""

from rods.envs.tool_classes import ToolClasses


class AuctionHouse:
    """Lots, bidders and sales."""

    def __init__(
        self,
        lots: dict[str, dict] | None = None,
        bidders: dict[str, dict] | None = None,
        sales: dict[str, dict] | None = None,
    ):
        self.lots = lots or {}
        self.bidders = bidders or {}
        self.sales = sales or {}

    def consign_lot(self, title: str, seller: str, estimate: int) -> dict:
        """Take in a lot from a seller."""
        lot_id = f"L{900 + len(self.lots)}"
        self.lots[lot_id] = {
            "title": title,
            "seller": seller,
            "estimate": estimate,
            "reserve": None,
            "sale": None,
            "bids": [],
            "state": "consigned",
        }
        return {"lot_id": lot_id}

    def describe_lot(self, lot_id: str) -> dict:
        """Look up a lot with its estimate and reserve."""
        lot = self.lots[lot_id]
        return {
            "title": lot["title"],
            "estimate": lot["estimate"],
            "reserve": lot["reserve"],
            "state": lot["state"],
        }

    def set_reserve(self, lot_id: str, reserve: int) -> dict:
        """Set the reserve price of a lot in euros."""
        lot = self.lots[lot_id]
        if reserve > lot["estimate"]:
            raise ValueError("the reserve may not exceed the estimate")
        lot["reserve"] = reserve
        return {"lot_id": lot_id, "reserve": reserve}

    def enter_lot(self, lot_id: str, sale_id: str) -> dict:
        """Enter a lot in a sale."""
        if sale_id not in self.sales:
            raise ValueError(f"unknown sale {sale_id}")
        lot = self.lots[lot_id]
        if lot["state"] in ("sold", "withdrawn"):
            raise ValueError(f"lot is {lot['state']}")
        lot["sale"] = sale_id
        lot["state"] = "catalogued"
        return {"lot_id": lot_id, "sale_id": sale_id, "date": self.sales[sale_id]["date"]}

    def withdraw_lot(self, lot_id: str) -> dict:
        """Withdraw a lot from its sale."""
        lot = self.lots[lot_id]
        if lot["sale"] is None or lot["state"] == "sold":
            raise ValueError("lot is in no sale or already sold")
        lot["sale"], lot["state"] = None, "withdrawn"
        return {"lot_id": lot_id, "state": "withdrawn"}

    def view_catalogue(self, sale_id: str) -> list[dict]:
        """Show the catalogue of a sale."""
        if sale_id not in self.sales:
            raise ValueError(f"unknown sale {sale_id}")
        return [
            {"lot_id": k, "title": v["title"], "estimate": v["estimate"]}
            for k, v in self.lots.items()
            if v["sale"] == sale_id
        ]

    def register_bidder(self, name: str, limit: int = 5000) -> dict:
        """Register a new bidder."""
        paddle = str(300 + len(self.bidders))
        self.bidders[paddle] = {"name": name, "limit": limit, "won": []}
        return {"paddle": paddle, "limit": limit}

    def raise_limit(self, paddle: str, limit: int) -> dict:
        """Change the credit limit of a bidder."""
        self.bidders[paddle]["limit"] = limit
        return {"paddle": paddle, "limit": limit}

    def place_bid(self, lot_id: str, paddle: str, amount: int) -> dict:
        """Place an absentee bid on a lot for a bidder."""
        lot, bidder = self.lots[lot_id], self.bidders[paddle]
        if lot["state"] != "catalogued":
            raise ValueError(f"lot is {lot['state']}")
        if amount > bidder["limit"]:
            raise ValueError("over the limit of the bidder")
        if lot["bids"] and amount <= lot["bids"][-1]["amount"]:
            raise ValueError("bid is too low")
        lot["bids"].append({"paddle": paddle, "amount": amount})
        return {"lot_id": lot_id, "highest": amount, "paddle": paddle}

    def highest_bid(self, lot_id: str) -> dict:
        """Get the highest bid on a lot."""
        bids = self.lots[lot_id]["bids"]
        if not bids:
            raise ValueError("no bids yet")
        return bids[-1]

    def hammer_lot(self, lot_id: str) -> dict:
        """Knock down a lot to the highest bidder."""
        lot = self.lots[lot_id]
        if not lot["bids"] or lot["bids"][-1]["amount"] < (lot["reserve"] or 0):
            raise ValueError("reserve not met")
        if lot["state"] == "sold":
            raise ValueError("already sold")
        best = lot["bids"][-1]
        lot["state"] = "sold"
        self.bidders[best["paddle"]]["won"].append(lot_id)
        return {"lot_id": lot_id, "paddle": best["paddle"], "price": best["amount"]}

    def bidder_statement(self, paddle: str) -> dict:
        """Print the statement of a bidder."""
        bidder = self.bidders[paddle]
        total = sum(self.lots[k]["bids"][-1]["amount"] for k in bidder["won"])
        return {
            "name": bidder["name"],
            "won": list(bidder["won"]),
            "total": total,
            "premium": round(total * 0.25, 2),
        }


house = ToolClasses("auction", [AuctionHouse])
