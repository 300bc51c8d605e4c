"""The devices of a laboratory: arguments with a word before the name of what they refer to."""

from __future__ import annotations

from typing import Any

from rods.envs.tool_classes import ToolClasses
from rods.task import Provenance, Task, Turn
from rods.types import ToolCall, Value


class Lab:
    def __init__(
        self,
        devices: dict[str, dict[str, Any]] | None = None,
        bookings: dict[str, dict[str, Any]] | None = None,
        number: int = 20,
    ) -> None:
        self.devices = devices or {}
        self.bookings = bookings or {}
        self.number = number

    def book_device(self, device_id: str, hours: int) -> dict[str, Any]:
        """Book a device.

        Args:
            device_id: Which device.
            hours: For how many hours.
        """
        self._device(device_id)
        self.number += 1
        booking_id = f"B-{self.number}"
        self.bookings[booking_id] = {"device_id": device_id, "hours": hours}
        return {"booking_id": booking_id, "device_id": device_id}

    def move_booking(self, booking_id: str, to_device_id: str) -> dict[str, Any]:
        """Move a booking to another device.

        Args:
            booking_id: Which booking.
            to_device_id: The other device.
        """
        self._device(to_device_id)
        booking = self._booking(booking_id)
        if booking["device_id"] == to_device_id:
            raise ValueError(f"{booking_id} is on {to_device_id} already")
        booking["device_id"] = to_device_id
        return {"booking_id": booking_id, "device_id": to_device_id}

    def cancel_booking(self, booking_id: str) -> dict[str, Any]:
        """Cancel a booking.

        Args:
            booking_id: Which booking.
        """
        return {"booking_id": booking_id, **self.bookings.pop(self._known(booking_id))}

    def report_fault(self, device_id: str, note: str) -> dict[str, Any]:
        """Report a fault of a device.

        Args:
            device_id: Which device.
            note: What is wrong with it.
        """
        self._device(device_id).setdefault("notes", []).append(note)
        return {"device_id": device_id, "fault": note}

    def device_status(self, device_id: str) -> dict[str, Any]:
        """Show the status of a device.

        Args:
            device_id: Which device.
        """
        return {"device_id": device_id, **self._device(device_id)}

    def _device(self, device_id: str) -> dict[str, Any]:
        if device_id not in self.devices:
            raise KeyError(f"there is no device {device_id}")
        return self.devices[device_id]

    def _known(self, booking_id: str) -> str:
        if booking_id not in self.bookings:
            raise KeyError(f"there is no booking {booking_id}")
        return booking_id

    def _booking(self, booking_id: str) -> dict[str, Any]:
        return self.bookings[self._known(booking_id)]


DEVICES = {
    "D-1": {"model": "microscope"},
    "D-2": {"model": "centrifuge"},
    "D-3": {"model": "laser"},
    "D-4": {"model": "scale"},
    "D-5": {"model": "oven"},
    "D-6": {"model": "mixer"},
}
BOOKINGS = {
    "B-7": {"device_id": "D-3", "hours": 2},
    "B-8": {"device_id": "D-1", "hours": 4},
    "B-9": {"device_id": "D-6", "hours": 1},
}
WORLD = {"classes": ["Lab"], "initial_config": {"Lab": {"devices": DEVICES, "bookings": BOOKINGS}}}


def _call(name: str, **arguments: Value) -> ToolCall:
    return ToolCall(name, arguments)


CONVERSATIONS: dict[str, tuple[Turn, ...]] = {
    "lab_1": (
        Turn("Book device D-2 for 3 hours.", (_call("book_device", device_id="D-2", hours=3),)),
    ),
    "lab_2": (Turn("Cancel booking B-8.", (_call("cancel_booking", booking_id="B-8"),)),),
    "lab_3": (
        Turn("How is device D-4?", (_call("device_status", device_id="D-4"),)),
        Turn(
            "Report a fault of it: the display stays dark.",
            (_call("report_fault", device_id="D-4", note="the display stays dark"),),
        ),
    ),
    "lab_4": (
        Turn(
            "Move booking B-7 to D-5.",
            (_call("move_booking", booking_id="B-7", to_device_id="D-5"),),
        ),
    ),
    "lab_5": (
        Turn("Book D-1 for 2 hours.", (_call("book_device", device_id="D-1", hours=2),)),
        Turn("Cancel booking B-9.", (_call("cancel_booking", booking_id="B-9"),)),
    ),
    "lab_6": (
        Turn("Show me the status of device D-6.", (_call("device_status", device_id="D-6"),)),
        Turn("Book it for 5 hours.", (_call("book_device", device_id="D-6", hours=5),)),
    ),
}
tasks = [
    Task("lab", "base", turns, WORLD, Provenance(origin=name, scenario=name))
    for name, turns in CONVERSATIONS.items()
]
lab = ToolClasses("lab", [Lab])
