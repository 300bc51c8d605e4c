"""What the agent is told of the shop's tools: names and parameters as released, our words.

Owns the descriptions, never what a tool does.

    SPECS[0].name      # "calculate"
"""

from __future__ import annotations

from collections.abc import Mapping

from rods.types import Json, ToolSpec

_ORDER = "Id of the order, such as '#W0000000'; it begins with '#'."
_METHOD = "Id of the payment method, such as 'gift_card_0000000'; details of users have it."
_ITEMS = "Item ids, each as often as it is meant."
_NEW = "Item ids that replace them: the same number, in the same order, of the same products."
_CONFIRM = "Tell the user the details first and get an explicit yes."
_PLACE = {
    "address1": "First line of the address.",
    "address2": "Second line of the address, or ''.",
    "city": "City.",
    "state": "State, such as 'CA'.",
    "country": "Country, such as 'USA'.",
    "zip": "Zip code, such as '12345'.",
}


def _spec(name: str, description: str, **parameters: str) -> ToolSpec:
    properties: dict[str, Json] = {key: _property(key, text) for key, text in parameters.items()}
    schema: Mapping[str, Json] = {
        "type": "object",
        "properties": properties,
        "required": list[Json](parameters),
    }
    return ToolSpec(name, description, schema)


def _property(name: str, text: str) -> Json:
    if name.endswith("_ids"):
        return {"type": "array", "items": {"type": "string"}, "description": text}
    return {"type": "string", "description": text}


SPECS: tuple[ToolSpec, ...] = (
    _spec(
        "calculate",
        "Calculate the value of an expression.",
        expression="Numbers, +, -, *, /, parentheses and spaces, such as '2 + 2'.",
    ),
    _spec(
        "cancel_pending_order",
        "Cancel an order that is pending; one that was processed or delivered cannot be cancelled. "
        "The payment is refunded: to a gift card at once, else within 5 to 7 business days. "
        f"{_CONFIRM} Returns the order.",
        order_id=_ORDER,
        reason="'no longer needed' or 'ordered by mistake'.",
    ),
    _spec(
        "exchange_delivered_order_items",
        "Exchange items of a delivered order for other items of the same product types. An order "
        f"can be returned or exchanged only once. {_CONFIRM} Returns the order.",
        order_id=_ORDER,
        item_ids=_ITEMS,
        new_item_ids=_NEW,
        payment_method_id=f"Pays or gets the difference in price. {_METHOD}",
    ),
    _spec(
        "find_user_id_by_name_zip",
        "Find the id of a user by name and zip code. Try the email first; this is for users who "
        "are not found by it or do not remember it.",
        first_name="First name.",
        last_name="Last name.",
        zip="Zip code, such as '12345'.",
    ),
    _spec(
        "find_user_id_by_email",
        "Find the id of a user by email.",
        email="Email, such as 'something@example.com'.",
    ),
    _spec("get_order_details", "Status and details of an order.", order_id=_ORDER),
    _spec(
        "get_product_details",
        "A product with all its items: options, price, whether they are available.",
        product_id="Id of the product; not an item id.",
    ),
    _spec(
        "get_item_details",
        "One item: options, price, whether it is available.",
        item_id="Id of the item; not a product id.",
    ),
    _spec(
        "get_user_details",
        "A user with address, payment methods and orders.",
        user_id="Id of the user, such as 'sara_doe_496'.",
    ),
    _spec(
        "list_all_product_types",
        "Names of all product types with their product ids. Each type has items with ids and "
        "options of their own.",
    ),
    _spec(
        "modify_pending_order_address",
        f"Change the shipping address of a pending order. {_CONFIRM} Returns the order.",
        order_id=_ORDER,
        **_PLACE,
    ),
    _spec(
        "modify_pending_order_items",
        "Change items of a pending order for other items of the same product types. It can be "
        f"called only once for an order. {_CONFIRM} Returns the order.",
        order_id=_ORDER,
        item_ids=_ITEMS,
        new_item_ids=_NEW,
        payment_method_id=f"Pays or gets the difference in price. {_METHOD}",
    ),
    _spec(
        "modify_pending_order_payment",
        f"Change the payment method of a pending order. {_CONFIRM} Returns the order.",
        order_id=_ORDER,
        payment_method_id=f"Pays instead. {_METHOD}",
    ),
    _spec(
        "modify_user_address",
        f"Change the default address of a user. {_CONFIRM} Returns the user.",
        user_id="Id of the user, such as 'sara_doe_496'.",
        **_PLACE,
    ),
    _spec(
        "return_delivered_order_items",
        "Return items of a delivered order. The user gets an email that says how. "
        f"{_CONFIRM} Returns the order.",
        order_id=_ORDER,
        item_ids=_ITEMS,
        payment_method_id=f"Gets the refund: the original method or a gift card. {_METHOD}",
    ),
    _spec(
        "transfer_to_human_agents",
        "Hand the user over to a human agent. Only where the user asks for one, or policy and "
        "tools do not allow to solve the matter.",
        summary="What the matter is.",
    ),
)
"""In the order of their names, more or less as the released ones are shown."""
