"""Counter system of a village pharmacy."""

from rods.envs.tool_classes import ToolClasses


class Pharmacy:
    """Prescriptions, stock and customers of a pharmacy."""

    def __init__(self, customers=None, medicines=None, prescriptions=None, orders=None):
        self.customers: dict = customers or {}
        self.medicines: dict = medicines or {}
        self.prescriptions: dict = prescriptions or {}
        self.orders: dict = orders or {}

    def register_prescription(
        self, customer_id: str, medicine: str, packs: int, doctor: str
    ) -> dict:
        """Register a new prescription of a customer.

        Parameters
        ----------
        customer_id : str
            Number of the customer, such as C-204.
        medicine : str
            Name of the medicine.
        packs : int
            Number of packs.
        doctor : str
            Doctor who signed it, e.g. "Dr Weiss" or "Dr Amari".

        Returns
        -------
        dict
            Number of the prescription.
        """
        if customer_id not in self.customers:
            raise ValueError(f"unknown customer {customer_id}")
        if medicine not in self.medicines:
            raise ValueError(f"{medicine} is not in our list")
        rx = f"RX-{7000 + len(self.prescriptions)}"
        self.prescriptions[rx] = {
            "customer": customer_id,
            "medicine": medicine,
            "packs": packs,
            "doctor": doctor,
            "filled": False,
        }
        return {"prescription_id": rx}

    def fill_prescription(self, prescription_id: str) -> dict:
        """Fill a prescription from stock.

        Parameters
        ----------
        prescription_id : str
            Number of the prescription.
        """
        rx = self.prescriptions[prescription_id]
        if rx["filled"]:
            raise ValueError("already filled")
        stock = self.medicines[rx["medicine"]]
        if stock["stock"] < rx["packs"]:
            raise ValueError("not enough in stock")
        stock["stock"] -= rx["packs"]
        rx["filled"] = True
        return {
            "prescription_id": prescription_id,
            "packs": rx["packs"],
            "to_pay": round(stock["price"] * rx["packs"], 2),
        }

    def cancel_prescription(self, prescription_id: str) -> dict:
        """Cancel a prescription.

        Parameters
        ----------
        prescription_id : str
            Number of the prescription.
        """
        if self.prescriptions[prescription_id]["filled"]:
            raise ValueError("already filled")
        del self.prescriptions[prescription_id]
        return {"cancelled": prescription_id}

    def get_prescription(self, prescription_id: str) -> dict:
        """Look up the details of a prescription.

        Parameters
        ----------
        prescription_id : str
            Number of the prescription.
        """
        return dict(self.prescriptions[prescription_id])

    def check_stock(self, medicine: str) -> dict:
        """Check how many packs of a medicine are in stock.

        Parameters
        ----------
        medicine : str
            Name of the medicine.
        """
        return {"medicine": medicine, "stock": self.medicines[medicine]["stock"]}

    def order_medicine(self, medicine: str, packs: int, wholesaler: str = "") -> dict:
        """Order packs of a medicine from the wholesaler.

        Parameters
        ----------
        medicine : str
            Name of the medicine.
        packs : int
            Number of packs to order.
        wholesaler : str, optional
            Name of the wholesaler, e.g. "Phoenix".
        """
        if medicine not in self.medicines:
            raise ValueError(f"{medicine} is not in our list")
        order_id = f"O-{len(self.orders) + 51}"
        self.orders[order_id] = {
            "medicine": medicine,
            "packs": packs,
            "state": "ordered",
            "from": wholesaler,
        }
        return {"order_id": order_id, "state": "ordered"}

    def receive_order(self, order_id: str) -> dict:
        """Book in an order that has arrived.

        Parameters
        ----------
        order_id : str
            Number of the order.
        """
        order = self.orders[order_id]
        if order["state"] != "ordered":
            raise ValueError(f"order is {order['state']}")
        order["state"] = "received"
        self.medicines[order["medicine"]]["stock"] += order["packs"]
        return {
            "order_id": order_id,
            "medicine": order["medicine"],
            "stock": self.medicines[order["medicine"]]["stock"],
        }

    def cancel_order(self, order_id: str) -> dict:
        """Cancel an order at the wholesaler.

        Parameters
        ----------
        order_id : str
            Number of the order.
        """
        order = self.orders[order_id]
        if order["state"] != "ordered":
            raise ValueError(f"order is {order['state']}")
        order["state"] = "cancelled"
        return {"order_id": order_id, "state": "cancelled"}

    def record_allergy(self, customer_id: str, substance: str) -> dict:
        """Record an allergy of a customer.

        Parameters
        ----------
        customer_id : str
            Number of the customer.
        substance : str
            What the customer reacts to, e.g. "penicillin", "latex" or "aspirin".
        """
        allergies = self.customers[customer_id]["allergies"]
        if substance in allergies:
            raise ValueError("already recorded")
        allergies.append(substance)
        return {"customer_id": customer_id, "allergies": list(allergies)}

    def customer_file(self, customer_id: str) -> dict:
        """Open the file of a customer.

        Parameters
        ----------
        customer_id : str
            Number of the customer.
        """
        customer = self.customers[customer_id]
        mine = [k for k, p in self.prescriptions.items() if p["customer"] == customer_id]
        return {
            "name": customer["name"],
            "allergies": list(customer["allergies"]),
            "prescriptions": mine,
        }

    def change_price(self, medicine: str, price: float) -> dict:
        """Change the price of a medicine.

        Parameters
        ----------
        medicine : str
            Name of the medicine.
        price : float
            New price per pack in euros.
        """
        old = self.medicines[medicine]["price"]
        self.medicines[medicine]["price"] = price
        return {"medicine": medicine, "old_price": old, "price": price}

    def update_phone(self, customer_id: str, phone: str) -> dict:
        """Update the phone number of a customer.

        Parameters
        ----------
        customer_id : str
            Number of the customer.
        phone : str
            New phone number, e.g. "0171 555 0148".
        """
        self.customers[customer_id]["phone"] = phone
        return {"customer_id": customer_id, "phone": phone}


def pharmacy():
    return ToolClasses("pharmacy", [Pharmacy])
