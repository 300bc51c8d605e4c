"""The depot of a car-sharing club, as somebody writes a tool class who knows the guide alone."""

from __future__ import annotations

from enum import Enum
from typing import Any

from rods.envs.tool_classes import ToolClasses


class Damage(Enum):
    SCRATCH = "scratch"
    DENT = "dent"
    FLAT_TYRE = "flat_tyre"


class Depot:
    def __init__(
        self,
        cars: dict[str, dict[str, Any]] | None = None,
        drivers: dict[str, dict[str, Any]] | None = None,
        trips: dict[str, dict[str, Any]] | None = None,
        counter: int = 40,
    ):
        self.cars = cars or {}
        self.drivers = drivers or {}
        self.trips = trips or {}
        self.reports: list[dict[str, Any]] = []
        self.counter = counter

    def available_cars(self, station: str, min_seats: int = 1) -> list[dict[str, Any]]:
        """Shows the free cars at a station.

        :param station: name of the station
        :param min_seats: smallest number of seats
        """
        return [
            {"plate": plate, "model": car["model"], "seats": car["seats"]}
            for plate, car in self.cars.items()
            if car["station"] == station and car["state"] == "free" and car["seats"] >= min_seats
        ]

    def car_status(self, plate: str) -> dict[str, Any]:
        """Returns the status of a car.

        :param plate: licence plate of the car
        """
        return {"plate": plate, **self._car(plate)}

    def start_trip(self, driver_id: str, plate: str) -> dict[str, Any]:
        """Starts a trip of a driver with a car.

        :param driver_id: who drives
        :param plate: licence plate of the car
        """
        car, driver = self._car(plate), self._driver(driver_id)
        if car["state"] != "free":
            raise RuntimeError(f"{plate} is {car['state']}")
        if driver["blocked"]:
            raise RuntimeError(f"driver {driver_id} is blocked")
        car["state"] = "in_use"
        self.counter += 1
        trip_id = f"T{self.counter:04d}"
        self.trips[trip_id] = {"driver_id": driver_id, "plate": plate, "open": True}
        return {"trip_id": trip_id, "battery": car["battery"]}

    def end_trip(self, trip_id: str, station: str, km: int) -> dict[str, Any]:
        """Ends a trip at a station.

        :param trip_id: which trip
        :param station: where the car was left
        :param km: how far it was driven
        """
        trip = self.trips.get(trip_id)
        if trip is None or not trip["open"]:
            raise RuntimeError(f"there is no open trip {trip_id}")
        if km < 0 or km > 400:
            raise RuntimeError("distance is out of range")
        trip["open"] = False
        car = self._car(trip["plate"])
        car["state"], car["station"] = "free", station
        car["battery"] = max(0, car["battery"] - km // 4)
        price = round(2.0 + 0.28 * km, 2)
        self._driver(trip["driver_id"])["balance"] -= price
        return {"trip_id": trip_id, "price": price, "battery": car["battery"]}

    def charge_car(self, plate: str, percent: int) -> dict[str, Any]:
        """Charges a car up to a percentage.

        :param plate: licence plate of the car
        :param percent: wanted level of the battery
        """
        car = self._car(plate)
        if not car["battery"] < percent <= 100:
            raise RuntimeError(f"the battery is at {car['battery']} percent")
        car["battery"] = percent
        return {"plate": plate, "battery": percent}

    def transfer_car(self, plate: str, station: str) -> dict[str, Any]:
        """Moves a free car to another station.

        :param plate: licence plate of the car
        :param station: where it is needed
        """
        car = self._car(plate)
        if car["state"] != "free":
            raise RuntimeError(f"{plate} is {car['state']}")
        if car["station"] == station:
            raise RuntimeError(f"{plate} is there already")
        car["station"] = station
        return {"plate": plate, "station": station}

    def report_damage(self, plate: str, kind: Damage, note: str = "") -> dict[str, Any]:
        """Reports a damage of a car and takes the car out of service.

        :param plate: licence plate of the car
        :param kind: what is broken
        :param note: where it is and how it looks
        """
        car = self._car(plate)
        car["state"] = "workshop"
        self.reports.append({"plate": plate, "kind": kind.value, "note": note})
        return {"report": len(self.reports), "state": "workshop"}

    def release_car(self, plate: str) -> dict[str, Any]:
        """Puts a repaired car back into service.

        :param plate: licence plate of the car
        """
        car = self._car(plate)
        if car["state"] != "workshop":
            raise RuntimeError(f"{plate} is not in the workshop")
        car["state"] = "free"
        return {"plate": plate, "state": "free", "station": car["station"]}

    def driver_account(self, driver_id: str) -> dict[str, Any]:
        """Shows the account of a driver.

        :param driver_id: which driver
        """
        return {"driver_id": driver_id, **self._driver(driver_id)}

    def top_up(self, driver_id: str, euros: int) -> dict[str, Any]:
        """Adds money to the account of a driver.

        :param driver_id: which driver
        :param euros: how much
        """
        if euros < 5:
            raise RuntimeError("at least 5 euros")
        driver = self._driver(driver_id)
        driver["balance"] = round(driver["balance"] + euros, 2)
        return {"driver_id": driver_id, "balance": driver["balance"]}

    def block_driver(self, driver_id: str, reason: str) -> dict[str, Any]:
        """Blocks a driver.

        :param driver_id: which driver
        :param reason: why
        """
        driver = self._driver(driver_id)
        if driver["blocked"]:
            raise RuntimeError(f"{driver_id} is blocked already")
        driver["blocked"] = True
        driver["note"] = reason
        return {"driver_id": driver_id, "blocked": True}

    def sign_up(self, name: str, email: str) -> dict[str, Any]:
        """Signs up a new driver.

        :param name: full name
        :param email: where bills are sent
        """
        self.counter += 1
        driver_id = f"D{self.counter:03d}"
        self.drivers[driver_id] = {"name": name, "email": email, "balance": 0.0, "blocked": False}
        return {"driver_id": driver_id}

    def _car(self, plate: str) -> dict[str, Any]:
        if plate not in self.cars:
            raise RuntimeError(f"unknown car {plate}")
        return self.cars[plate]

    def _driver(self, driver_id: str) -> dict[str, Any]:
        if driver_id not in self.drivers:
            raise RuntimeError(f"unknown driver {driver_id}")
        return self.drivers[driver_id]


depot = ToolClasses("depot", [Depot])
