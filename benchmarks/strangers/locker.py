"""A network of parcel lockers: plain dictionaries, NumPy docstrings, one method without any."""

from rods.envs.tool_classes import ToolClasses


class LockerNetwork:
    def __init__(self, stations, parcels, couriers=None, log=None):
        self.stations = stations
        self.parcels = parcels
        self.couriers = couriers or {}
        self.log = log or []

    def list_stations(self, city: str):
        """
        Show all locker stations of a city.

        Parameters
        ----------
        city : str
            name of the city
        """
        return [
            {"station_id": k, "street": s["street"]}
            for k, s in self.stations.items()
            if s["city"] == city
        ]

    def free_boxes(self, station_id: str, size: str = "M"):
        """
        Count the free boxes at a station.

        Parameters
        ----------
        station_id : str
            id of the station
        size : {'S', 'M', 'L'}
            box size
        """
        return {
            "station_id": station_id,
            "size": size,
            "free": self.stations[station_id]["free"].get(size, 0),
        }

    def drop_off(self, parcel_id: str, station_id: str, size: str = "M"):
        """
        Drop off a parcel at a station.

        Parameters
        ----------
        parcel_id : str
            id of the parcel
        station_id : str
            id of the station
        size : str
            size of the box to use
        """
        if self.stations[station_id]["free"].get(size, 0) < 1:
            return {"error": "no free box of size " + size}
        self.stations[station_id]["free"][size] -= 1
        self.parcels[parcel_id].update(station_id=station_id, size=size, status="stored")
        return {"parcel_id": parcel_id, "pickup_code": self._code(parcel_id)}

    def pick_up(self, parcel_id: str, pickup_code: int):
        """Collect a parcel with its pickup code."""
        p = self.parcels[parcel_id]
        if pickup_code != self._code(parcel_id):
            return {"error": "wrong code"}
        self.stations[p["station_id"]]["free"][p["size"]] += 1
        p["status"] = "collected"
        return "ok"

    def track(self, parcel_id: str):
        """
        Track a parcel.

        Parameters
        ----------
        parcel_id : str
            id of the parcel
        """
        return dict(self.parcels[parcel_id])

    def extend_storage(self, parcel_id: str, days: int):
        """
        Extend the storage time of a parcel.

        Parameters
        ----------
        parcel_id : str
            id of the parcel
        days : int
            number of extra days
        """
        p = self.parcels[parcel_id]
        p["days_left"] = p.get("days_left", 3) + days
        return p["days_left"]

    def redirect(self, parcel_id: str, station_id: str):
        p = self.parcels[parcel_id]
        if p["status"] != "in transit":
            raise RuntimeError("too late, the parcel is " + p["status"])
        p["station_id"] = station_id
        return {"parcel_id": parcel_id, "station_id": station_id}

    def assign_courier(self, courier_id: str, parcel_ids: list):
        """
        Give parcels to a courier.

        Parameters
        ----------
        courier_id : str
            id of the courier
        parcel_ids : list of str
            ids of the parcels to carry
        """
        for x in parcel_ids:
            self.parcels[x]["courier_id"] = courier_id
        self.couriers[courier_id]["load"] = self.couriers[courier_id].get("load", 0) + len(
            parcel_ids
        )
        return {"courier_id": courier_id, "load": self.couriers[courier_id]["load"]}

    def report_defect(self, station_id: str, problem: str):
        """
        Report a defect of a station to the service team.

        Parameters
        ----------
        station_id : str
            id of the station
        problem : str
            what is broken
        """
        self.log.append({"station_id": station_id, "problem": problem})
        return {"ticket": len(self.log)}

    def set_pickup_person(self, parcel_id: str, person: dict):
        """
        Let another person collect a parcel.

        Parameters
        ----------
        parcel_id : str
            id of the parcel
        person : dict
            name and phone of the person
        """
        self.parcels[parcel_id]["person"] = person
        return {"parcel_id": parcel_id, "person": person["name"]}

    def _code(self, parcel_id):
        return 1000 + sum(ord(ch) * (i + 3) for i, ch in enumerate(parcel_id)) % 9000


environment = ToolClasses("lockers", [LockerNetwork])
