"""The shop's database: products, customers and orders, read once and changed by copies.

Owns the form of `db.json`, how long a change lives and what two states are compared by. What a
tool may change is `tools.py`'s.

    shop = read_database(Path("retail/db.json"))
    store = Store(shop)                       # one world's; the shop itself never changes
    store.order("#W1")["status"]
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from rods.errors import TaskError
from rods.infra.files import text_of


class Variant(TypedDict):
    """One item that can be bought."""

    item_id: str
    options: dict[str, str]
    available: bool
    price: float


class Product(TypedDict):
    """A type of product with its items, by their ids."""

    name: str
    product_id: str
    variants: dict[str, Variant]


class Name(TypedDict):
    """Of a customer."""

    first_name: str
    last_name: str


class Address(TypedDict):
    """Of a customer or of an order."""

    address1: str
    address2: str
    city: str
    country: str
    state: str
    zip: str


class CreditCard(TypedDict):
    """A way to pay."""

    source: Literal["credit_card"]
    id: str
    brand: str
    last_four: str


class GiftCard(TypedDict):
    """A way to pay, as far as its balance goes."""

    source: Literal["gift_card"]
    id: str
    balance: float


class Paypal(TypedDict):
    """A way to pay."""

    source: Literal["paypal"]
    id: str


class Customer(TypedDict):
    """A customer with ways to pay, by their ids."""

    user_id: str
    name: Name
    address: Address
    email: str
    payment_methods: dict[str, CreditCard | GiftCard | Paypal]
    orders: list[str]


class Item(TypedDict):
    """One item of an order."""

    name: str
    product_id: str
    item_id: str
    price: float
    options: dict[str, str]


class Fulfillment(TypedDict):
    """What was sent."""

    tracking_id: list[str]
    item_ids: list[str]


class Payment(TypedDict):
    """A payment of an order, or a refund."""

    transaction_type: Literal["payment", "refund"]
    amount: float
    payment_method_id: str


class Order(TypedDict):
    """An order; what was asked for later is None until then."""

    order_id: str
    user_id: str
    address: Address
    items: list[Item]
    status: Literal[
        "processed",
        "pending",
        "pending (item modified)",
        "delivered",
        "cancelled",
        "exchange requested",
        "return requested",
    ]
    fulfillments: list[Fulfillment]
    payment_history: list[Payment]
    cancel_reason: NotRequired[Literal["no longer needed", "ordered by mistake"] | None]
    exchange_items: NotRequired[list[str] | None]
    exchange_new_items: NotRequired[list[str] | None]
    exchange_payment_method_id: NotRequired[str | None]
    exchange_price_difference: NotRequired[float | None]
    return_items: NotRequired[list[str] | None]
    return_payment_method_id: NotRequired[str | None]


LATER = (
    "cancel_reason",
    *("exchange_items", "exchange_new_items"),
    *("exchange_payment_method_id", "exchange_price_difference"),
    *("return_items", "return_payment_method_id"),
)
"""Keys of an order that every order has once it is read."""


class Tables(TypedDict):
    """The whole of `db.json`."""

    products: dict[str, Product]
    users: dict[str, Customer]
    orders: dict[str, Order]


@dataclass(frozen=True)
class Shop:
    """A database as it was read; shared by all worlds, changed by none."""

    products: Mapping[str, Product]
    users: Mapping[str, Customer]
    orders: Mapping[str, Order]


_FORM: TypeAdapter[Tables] = TypeAdapter(Tables)


def read_database(path: Path) -> Shop:
    """The database of a file.

    Raises:
        TaskError: it is missing or of another form; the message names file and key.
    """
    try:
        found = _FORM.validate_json(text_of(path, "a database", TaskError))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise TaskError(
            f"{path}: {where or 'the file'}: {first['msg']}; expected the products, users and "
            "orders of tau2-bench's retail domain."
        ) from None
    orders: dict[str, Any] = {
        key: {**order, **{name: order.get(name) for name in LATER}}
        for key, order in found["orders"].items()
    }
    return Shop(found["products"], found["users"], orders)


class Store:
    """One world's view of a shop: what it changed, over what the shop has."""

    def __init__(self, shop: Shop) -> None:
        """Nothing is changed yet."""
        self.products = shop.products
        self._shop = shop
        self._users: dict[str, Customer] = {}
        self._orders: dict[str, Order] = {}

    def order(self, order_id: str) -> Order:
        """To be changed by who has it; raises ValueError where there is none."""
        if order_id not in self._shop.orders:
            raise ValueError("Order not found")
        if order_id not in self._orders:
            self._orders[order_id] = copy.deepcopy(self._shop.orders[order_id])
        return self._orders[order_id]

    def user(self, user_id: str) -> Customer:
        """To be changed by who has it; raises ValueError where there is none."""
        if user_id not in self._shop.users:
            raise ValueError("User not found")
        if user_id not in self._users:
            self._users[user_id] = copy.deepcopy(self._shop.users[user_id])
        return self._users[user_id]

    def users(self) -> Mapping[str, Customer]:
        """All customers in the order of the database, to be read."""
        return {**self._shop.users, **self._users} if self._users else self._shop.users

    def changes(self) -> dict[str, str]:
        """Customers and orders that are not as in the shop, as JSON; equal for equal states.

        JSON tells 1 from 1.0 and from true, as the released comparison of states does.
        """
        made: dict[str, str] = {}
        pairs = ((self._users, self._shop.users), (self._orders, self._shop.orders))
        for kind, (mine, theirs) in zip(("user", "order"), pairs, strict=True):
            for key, value in mine.items():
                text = json.dumps(value, sort_keys=True)
                if text != json.dumps(theirs[key], sort_keys=True):
                    made[f"{kind} {key}"] = text
        return made

    def tables(self) -> dict[str, Any]:
        """The whole database as it is now."""
        orders = {**self._shop.orders, **self._orders}
        return {"products": dict(self.products), "users": dict(self.users()), "orders": orders}
