"""The shop's tools over a store: names, arguments, results and errors are the released ones'.

Owns what each tool checks, in which order, and what it changes; also what it has changed when a
later check fails. Arguments are whatever the agent wrote: a tool fails on them as Python does.

    RetailTools(Store(shop)).call("get_order_details", {"order_id": "#W1"}).content
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from rods.envs.suites.tau2.arithmetic import calculated
from rods.envs.suites.tau2.database import Order, Store, Variant
from rods.types import ToolResult

_FAULTS = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError),
    *(SyntaxError, RecursionError, MemoryError),
)
"""What a tool can fail by; the texts go to the agent."""


class UserAddress(BaseModel):
    """What an address must be; its message is the released one's, class name included."""

    address1: str
    address2: str
    city: str
    country: str
    state: str
    zip: str


class RetailTools:
    """The tools of one world; their names and parameters are the agent's."""

    def __init__(self, store: Store) -> None:
        """Change nothing yet."""
        self._store = store

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool by name; what it returns, or `Error: ` and why."""
        try:
            if name not in TOOLS:
                raise ValueError(f"Tool '{name}' not found.")
            found = getattr(self, name)(**arguments)
        except _FAULTS as error:
            return ToolResult(f"Error: {error}", True)
        return ToolResult(found if isinstance(found, str) else json.dumps(found))

    def calculate(self, expression: str) -> str:
        """The value of an expression."""
        return calculated(expression)

    def transfer_to_human_agents(self, summary: str) -> str:
        """A word; nothing changes."""
        return "Transfer successful"

    def find_user_id_by_email(self, email: str) -> str:
        """The id of who has this address, in whatever case."""
        for user_id, user in self._store.users().items():
            if user["email"].lower() == email.lower():
                return user_id
        raise ValueError("User not found")

    def find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> str:
        """The id of who has this name, in whatever case, and this zip code."""
        for user_id, user in self._store.users().items():
            name = user["name"]
            if name["first_name"].lower() != first_name.lower():
                continue
            same = name["last_name"].lower() == last_name.lower()
            if same and user["address"]["zip"] == zip:
                return user_id
        raise ValueError("User not found")

    def list_all_product_types(self) -> str:
        """Ids of products by their names, sorted, as JSON."""
        found = {one["name"]: one["product_id"] for one in self._store.products.values()}
        return json.dumps(found, sort_keys=True)

    def get_user_details(self, user_id: str) -> object:
        """The customer."""
        return self._store.user(user_id)

    def get_order_details(self, order_id: str) -> object:
        """The order."""
        return self._store.order(order_id)

    def get_product_details(self, product_id: str) -> object:
        """The product with its items."""
        return self._product(product_id)

    def get_item_details(self, item_id: str) -> object:
        """The item of whatever product."""
        for product in self._store.products.values():
            if item_id in product["variants"]:
                return product["variants"][item_id]
        raise ValueError("Item not found")

    def cancel_pending_order(self, order_id: str, reason: str) -> object:
        """Refund every payment; gift cards get theirs at once."""
        order = self._with_status(order_id, "pending", "Non-pending order cannot be cancelled")
        if reason not in {"no longer needed", "ordered by mistake"}:
            raise ValueError("Invalid reason")
        refunds: list[Any] = []
        for payment in order["payment_history"]:
            paid_by = payment["payment_method_id"]
            refunds.append(_payment("refund", payment["amount"], paid_by))
            _add(self._method(order["user_id"], paid_by), payment["amount"])
        order["status"], order["cancel_reason"] = "cancelled", cast("Any", reason)
        order["payment_history"] += refunds
        return order

    def modify_pending_order_address(
        self,
        order_id: str,
        address1: str,
        address2: str,
        city: str,
        state: str,
        country: str,
        zip: str,
    ) -> object:
        """Send the order elsewhere; also one whose items were modified."""
        order = self._pending(order_id)
        order["address"] = _address(address1, address2, city, state, country, zip)
        return order

    def modify_user_address(
        self,
        user_id: str,
        address1: str,
        address2: str,
        city: str,
        state: str,
        country: str,
        zip: str,
    ) -> object:
        """Change where the customer lives."""
        user = self._store.user(user_id)
        user["address"] = _address(address1, address2, city, state, country, zip)
        return user

    def modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> object:
        """Pay again by another method, and refund the one payment that there was."""
        order = self._pending(order_id)
        method = self._method(order["user_id"], payment_method_id)
        paid = order["payment_history"]
        if len(paid) != 1 or paid[0]["transaction_type"] != "payment":
            raise ValueError("There should be exactly one payment for a pending order")
        before, amount = paid[0]["payment_method_id"], paid[0]["amount"]
        if before == payment_method_id:
            raise ValueError("The new payment method should be different from the current one")
        if _short_of(method, amount):
            raise ValueError("Insufficient gift card balance to pay for the order")
        paid.append(_payment("payment", amount, payment_method_id))
        paid.append(_payment("refund", amount, before))
        _add(method, -amount)
        _add(self._method(order["user_id"], before), amount)
        return order

    def modify_pending_order_items(
        self, order_id: str, item_ids: Any, new_item_ids: Any, payment_method_id: str
    ) -> object:
        """Replace items by others of their products, once.

        As released, each new item gets the price and the options of the last one in the list.
        """
        order = self._with_status(order_id, "pending", "Non-pending order cannot be modified")
        variants = self._replacing(order, item_ids, new_item_ids, modifies=True)
        difference = _difference(order, item_ids, variants)
        method = self._method(order["user_id"], payment_method_id)
        if _short_of(method, difference):
            raise ValueError("Insufficient gift card balance to pay for the new item")
        kind = "payment" if difference > 0 else "refund"
        order["payment_history"].append(_payment(kind, abs(difference), payment_method_id))
        _add(method, -difference)
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = _item(order, old)
            item["item_id"] = new
            item["price"], item["options"] = variants[-1]["price"], variants[-1]["options"]
        order["status"] = "pending (item modified)"
        return order

    def exchange_delivered_order_items(
        self, order_id: str, item_ids: Any, new_item_ids: Any, payment_method_id: str
    ) -> object:
        """Ask for other items of the same products; nothing is paid yet."""
        order = self._with_status(order_id, "delivered", "Non-delivered order cannot be exchanged")
        variants = self._replacing(order, item_ids, new_item_ids, modifies=False)
        difference = round(_difference(order, item_ids, variants), 2)
        if _short_of(self._method(order["user_id"], payment_method_id), difference):
            raise ValueError("Insufficient gift card balance to pay for the price difference")
        order["status"] = "exchange requested"
        order["exchange_items"] = sorted(item_ids)
        order["exchange_new_items"] = sorted(new_item_ids)
        order["exchange_payment_method_id"] = payment_method_id
        order["exchange_price_difference"] = difference
        return order

    def return_delivered_order_items(
        self, order_id: str, item_ids: Any, payment_method_id: str
    ) -> object:
        """Ask to give items back, to the first payment's method or a gift card."""
        order = self._with_status(order_id, "delivered", "Non-delivered order cannot be returned")
        method = self._method(order["user_id"], payment_method_id)
        if method["source"] != "gift_card":
            first = order["payment_history"][0]
            if payment_method_id != first["payment_method_id"]:
                raise ValueError("Payment method should be the original payment method")
        _all_there(order, item_ids, "Some item not found")
        order["status"] = "return requested"
        order["return_items"] = sorted(item_ids)
        order["return_payment_method_id"] = payment_method_id
        return order

    def _with_status(self, order_id: str, status: str, otherwise: str) -> Order:
        order = self._store.order(order_id)
        if order["status"] != status:
            raise ValueError(otherwise)
        return order

    def _pending(self, order_id: str) -> Order:
        order = self._store.order(order_id)
        if "pending" not in order["status"]:
            raise ValueError("Non-pending order cannot be modified")
        return order

    def _product(self, product_id: str) -> Any:
        if product_id not in self._store.products:
            raise ValueError("Product not found")
        return self._store.products[product_id]

    def _method(self, user_id: str, method_id: str) -> Any:
        methods = self._store.user(user_id)["payment_methods"]
        if method_id not in methods:
            raise ValueError("Payment method not found")
        return methods[method_id]

    def _replacing(self, order: Order, old: Any, new: Any, modifies: bool) -> list[Variant]:
        """The items that replace others, each of the same product and to be had."""
        missing = "{} not found" if modifies else "Number of {} not found."
        _all_there(order, old, missing)
        if len(old) != len(new):
            end = "" if modifies else "."
            raise ValueError(f"The number of items to be exchanged should match{end}")
        found: list[Variant] = []
        for item_id, new_id in zip(old, new, strict=True):
            if modifies and item_id == new_id:
                raise ValueError("The new item id should be different from the old item id")
            variants = self._product(_item(order, item_id)["product_id"])["variants"]
            if new_id not in variants:
                raise ValueError("Variant not found")
            if not variants[new_id]["available"]:
                raise ValueError(f"New item {new_id} not found or available")
            found.append(variants[new_id])
        return found


TOOLS: Mapping[str, Callable[..., object]] = {
    name: tool
    for name, tool in vars(RetailTools).items()
    if inspect.isfunction(tool) and not name.startswith("_") and name != "call"
}
"""By name, in the order in which they are shown."""


def _address(a1: str, a2: str, city: str, state: str, country: str, zip_code: str) -> Any:
    given = UserAddress(
        address1=a1, address2=a2, city=city, state=state, country=country, zip=zip_code
    )
    return given.model_dump()


def _payment(kind: str, amount: float, method_id: str) -> Any:
    return {"transaction_type": kind, "amount": float(amount), "payment_method_id": method_id}


def _short_of(method: Any, amount: float) -> bool:
    return method["source"] == "gift_card" and method["balance"] < amount


def _add(method: Any, amount: float) -> None:
    """A gift card's balance changes at once, any other method's elsewhere."""
    if method["source"] == "gift_card":
        method["balance"] = round(method["balance"] + amount, 2)


def _item(order: Order, item_id: str) -> Any:
    for item in order["items"]:
        if item["item_id"] == item_id:
            return item
    raise ValueError(f"Item {item_id} not found")


def _all_there(order: Order, wanted: Any, otherwise: str) -> None:
    """Every item as often as it is wanted."""
    there = [item["item_id"] for item in order["items"]]
    for one in wanted:
        if wanted.count(one) > there.count(one):
            raise ValueError(otherwise.format(one))


def _difference(order: Order, old: Any, variants: list[Variant]) -> float:
    """What the new items cost more, summed in the order of the list."""
    total: float = 0
    for item_id, variant in zip(old, variants, strict=True):
        total += variant["price"] - _item(order, item_id)["price"]
    return total
