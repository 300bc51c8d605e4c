"""A small courier company, as somebody writes it who takes Python's own types for arguments."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel, Field

from rods.envs.tool_classes import ToolClasses
from rods.task import Provenance, Task, Turn
from rods.types import Json, ToolCall, Value


class Service(Enum):
    STANDARD = "standard"
    EXPRESS = "express"
    OVERNIGHT = "overnight"


class Address(BaseModel):
    """Where a parcel goes.

    Attributes:
        street: Street and number.
    """

    street: str = Field(min_length=3)
    city: str
    zip_code: str = Field(pattern=r"^\d{5}$")


@dataclass
class Parcel:
    recipient: str
    to: Address
    weight: float
    service: Service = Service.STANDARD
    day: date | None = None
    marks: set[str] = field(default_factory=set)
    price: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise ValueError("a parcel must weigh something")


PRICES = {
    Service.STANDARD: Decimal("4.50"),
    Service.EXPRESS: Decimal("9.90"),
    Service.OVERNIGHT: Decimal("19.00"),
}
DAYS = {Service.STANDARD: 4, Service.EXPRESS: 2, Service.OVERNIGHT: 1}


class Courier:
    def __init__(
        self,
        parcels: dict[str, Parcel] | None = None,
        today: date = date(2026, 3, 2),
        number: int = 500,
    ) -> None:
        self.parcels = parcels or {}
        self.today = today
        self.number = number

    def _parcel(self, parcel_id: str) -> Parcel:
        if parcel_id not in self.parcels:
            raise KeyError(f"there is no parcel {parcel_id}")
        return self.parcels[parcel_id]

    def register_parcel(
        self,
        recipient: str,
        to: Address,
        weight: Annotated[float, "Weight in kilograms"],
        service: Service = Service.STANDARD,
    ) -> dict[str, object]:
        """Register a parcel.

        Args:
            recipient: Who receives it.
            to: Where it goes.
        """
        self.number += 1
        parcel_id = f"P-{self.number}"
        self.parcels[parcel_id] = Parcel(recipient, to, weight, service, price=PRICES[service])
        return {"parcel_id": parcel_id, "price": PRICES[service]}

    def redirect_parcel(self, parcel_id: str, to: Address) -> Parcel:
        """Redirect a parcel to another address.

        Args:
            parcel_id: Number of the parcel.
            to: The new address.
        """
        self._parcel(parcel_id).to = to
        return self._parcel(parcel_id)

    def schedule_pickup(self, parcel_id: str, day: date) -> date:
        """Schedule the pickup of a parcel.

        Args:
            parcel_id: Number of the parcel.
            day: Day of the pickup.
        """
        if day < self.today:
            raise ValueError(f"the day {day} has passed")
        self._parcel(parcel_id).day = day
        return day

    def change_service(self, parcel_id: str, service: Service) -> Decimal:
        """Change the service of a parcel.

        Args:
            parcel_id: Number of the parcel.
            service: How fast it travels.
        """
        parcel = self._parcel(parcel_id)
        parcel.service, parcel.price = service, PRICES[service]
        return parcel.price

    def mark_parcel(self, parcel_id: str, *marks: str) -> set[str]:
        """Mark a parcel, such as fragile.

        Args:
            parcel_id: Number of the parcel.
            marks: What to write on it.
        """
        self._parcel(parcel_id).marks.update(marks)
        return self._parcel(parcel_id).marks

    async def track_parcel(self, parcel_id: str) -> dict[str, object]:
        """Track a parcel.

        Args:
            parcel_id: Number of the parcel.
        """
        parcel = self._parcel(parcel_id)
        _, wait = await asyncio.gather(asyncio.sleep(0), self._transit(parcel.service))
        return {
            "service": parcel.service,
            "day": parcel.day,
            "arrival": (parcel.day or self.today) + wait,
        }

    async def _transit(self, service: Service) -> timedelta:
        await asyncio.sleep(0)
        return timedelta(days=DAYS[service])


courier = ToolClasses("courier", [Courier])

ELM: Any = {"street": "Elm Street 4", "city": "Leeds", "zip_code": "10117"}
OAK: Any = {"street": "Oak Lane 12", "city": "Bristol", "zip_code": "20095"}
MILL: Any = {"street": "Mill Road 7", "city": "York", "zip_code": "30159"}
PARCELS: dict[str, Json] = {
    "P-101": {"recipient": "Ada Brook", "to": ELM, "weight": 2.5, "service": "express"},
    "P-102": {"recipient": "Jon Weir", "to": OAK, "weight": 0.8, "day": "2026-03-05"},
    "P-103": {"recipient": "Mia Stone", "to": MILL, "weight": 12, "marks": ["heavy"]},
    "P-104": {"recipient": "Sam Ortiz", "to": OAK, "weight": 4.2, "service": "overnight"},
}


def _task(number: int, category: str, *turns: Turn) -> Task:
    name = f"courier_{number}"
    world: dict[str, Json] = {
        "classes": ["Courier"],
        "initial_config": {"Courier": {"parcels": PARCELS}},
    }
    return Task("courier", category, turns, world, Provenance(origin=name, scenario=name))


def _call(name: str, **arguments: Value) -> ToolCall:
    return ToolCall(name, arguments)


TASKS = [
    _task(
        1,
        "base",
        Turn(
            "Register a parcel of 3 kilograms for Lea Novak at Elm Street 4, Leeds, 10117.",
            (_call("register_parcel", recipient="Lea Novak", to=ELM, weight=3),),
        ),
        Turn(
            "Schedule the pickup of parcel P-501 on 2026-03-06.",
            (_call("schedule_pickup", parcel_id="P-501", day="2026-03-06"),),
        ),
    ),
    _task(
        2,
        "base",
        Turn("Track parcel P-101.", (_call("track_parcel", parcel_id="P-101"),)),
        Turn(
            "Change the service of it to overnight.",
            (_call("change_service", parcel_id="P-101", service="overnight"),),
        ),
    ),
    _task(
        3,
        "base",
        Turn(
            "Redirect parcel P-102 to Mill Road 7, York, 30159.",
            (_call("redirect_parcel", parcel_id="P-102", to=MILL),),
        ),
    ),
    _task(
        4,
        "base",
        Turn(
            "Mark parcel P-104 as fragile and urgent.",
            (_call("mark_parcel", parcel_id="P-104", marks=["fragile", "urgent"]),),
        ),
        Turn("Now track it.", (_call("track_parcel", parcel_id="P-104"),)),
    ),
    _task(
        5,
        "miss_param",
        Turn("Schedule the pickup of parcel P-103, please."),
        Turn("On 2026-03-09.", (_call("schedule_pickup", parcel_id="P-103", day="2026-03-09"),)),
    ),
    _task(
        6,
        "miss_func",
        Turn("Track parcel P-103.", (), ("track_parcel",)),
        Turn("", (_call("track_parcel", parcel_id="P-103"),)),
    ),
    _task(
        7,
        "base",
        Turn(
            "Register an express parcel of 1.5 kilograms for Tom Hale at Oak Lane 12, Bristol, "
            "20095.",
            (
                _call(
                    "register_parcel",
                    recipient="Tom Hale",
                    to=OAK,
                    weight=1.5,
                    service="express",
                ),
            ),
        ),
    ),
    _task(
        8,
        "base",
        Turn(
            "Change the service of parcel P-102 to express and schedule its pickup on 2026-03-11.",
            (
                _call("change_service", parcel_id="P-102", service="express"),
                _call("schedule_pickup", parcel_id="P-102", day="2026-03-11"),
            ),
        ),
    ),
]
