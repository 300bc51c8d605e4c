"""The tools: an ordinary Python class. Replace it by your own.

Public methods are the tools, and public attributes are the state of the world. The last line makes
an environment of the class. Ids are counted, not drawn, so that a replay gives the same results.
"""

from __future__ import annotations

from typing import Any, Literal

from rods.envs.tool_classes import ToolClasses

Area = Literal["garden", "hall", "terrace"]
Course = Literal["starter", "main", "dessert"]
Record = dict[str, Any]


class Bistro:
    """One evening in a small restaurant: tables, reservations and orders."""

    def __init__(
        self,
        tables: dict[str, Record] | None = None,
        dishes: dict[str, Record] | None = None,
        reservations: dict[str, Record] | None = None,
        next_number: int = 1,
    ):
        self.tables = tables or {}
        self.dishes = dishes or {}
        self.reservations = reservations or {}
        self.next_number = next_number

    def find_tables(self, guests: int, area: Area | None = None) -> list[Record]:
        """List the free tables.

        Args:
            guests: Number of people.
            area: Only tables in this part of the restaurant.
        """
        taken = {reservation["table_id"] for reservation in self.reservations.values()}
        return [
            {"table_id": key, "seats": table["seats"], "area": table["area"]}
            for key, table in self.tables.items()
            if key not in taken and table["seats"] >= guests and area in (None, table["area"])
        ]

    def reserve_table(self, table_id: str, name: str, guests: int) -> Record:
        """Reserve a table under a name.

        Args:
            table_id: Which table, such as T-90.
            name: Surname of the guest.
            guests: Number of people.
        """
        if table_id not in self.tables:
            raise KeyError(f"there is no table {table_id}")
        if any(other["table_id"] == table_id for other in self.reservations.values()):
            raise ValueError(f"table {table_id} is taken")
        if not 1 <= guests <= self.tables[table_id]["seats"]:
            raise ValueError(f"table {table_id} has {self.tables[table_id]['seats']} seats")
        reservation_id = f"R-{self.next_number}"
        self.next_number += 1
        self.reservations[reservation_id] = {
            "table_id": table_id,
            "name": name,
            "guests": guests,
            "orders": {},
        }
        return {"reservation_id": reservation_id, "table_id": table_id}

    def cancel_reservation(self, reservation_id: str) -> Record:
        """Cancel a reservation.

        Args:
            reservation_id: Number of the reservation, such as R-90.
        """
        table_id = self._reservation(reservation_id)["table_id"]
        del self.reservations[reservation_id]
        return {"cancelled": reservation_id, "table_id": table_id}

    def show_menu(self, course: Course) -> list[Record]:
        """Show the dishes of a course with their prices.

        Args:
            course: Which part of the menu.
        """
        return [
            {"dish_id": key, "dish": dish["title"], "price": dish["price"]}
            for key, dish in self.dishes.items()
            if dish["course"] == course
        ]

    def order_dish(self, reservation_id: str, dish_id: str, portions: int = 1) -> Record:
        """Order a dish for a reservation.

        Args:
            reservation_id: Who orders.
            dish_id: Which dish, such as D-90.
            portions: How many of it.
        """
        if dish_id not in self.dishes:
            raise KeyError(f"there is no dish {dish_id}")
        if not 1 <= portions <= 20:
            raise ValueError("from 1 to 20 portions can be ordered at once")
        orders = self._reservation(reservation_id)["orders"]
        orders[dish_id] = orders.get(dish_id, 0) + portions
        return {"reservation_id": reservation_id, "portions": orders[dish_id]}

    def show_bill(self, reservation_id: str) -> Record:
        """Show the bill of a reservation.

        Args:
            reservation_id: Whose bill.
        """
        orders = self._reservation(reservation_id)["orders"]
        total = sum(self.dishes[key]["price"] * portions for key, portions in orders.items())
        return {"reservation_id": reservation_id, "total": round(total, 2)}

    def _reservation(self, reservation_id: str) -> Record:
        if reservation_id not in self.reservations:
            raise KeyError(f"there is no reservation {reservation_id}")
        return self.reservations[reservation_id]


bistro = ToolClasses("bistro", [Bistro])
