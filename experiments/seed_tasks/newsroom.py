"""Editorial desk of a local newspaper."""

from rods.envs.tool_classes import ToolClasses


class Newsroom:
    """Stories, reporters and pages."""

    def __init__(
        self, stories: dict | None = None, reporters: dict | None = None, pages: dict | None = None
    ):
        self.stories = stories or {}
        self.reporters = reporters or {}
        self.pages = pages or {}

    def pitch_story(self, headline: str, section: str) -> dict:
        """Pitch a new story.

        Args:
            headline: Working headline, e.g. "Bridge closed until autumn" or "Mayor opens skate park".
            section: Section of the paper, e.g. "local", "sport" or "culture".

        Returns:
            dict: The slug of the story.
        """  # noqa: E501
        slug = headline.lower().split()[0] + f"-{len(self.stories) + 1}"
        self.stories[slug] = {
            "headline": headline,
            "section": section,
            "reporter": None,
            "words": 0,
            "status": "pitched",
            "page": None,
        }
        return {"slug": slug, "status": "pitched"}

    def assign_story(self, slug: str, reporter: str) -> dict:
        """Assign a story to a reporter.

        Args:
            slug: Slug of the story, e.g. "budget-vote".
            reporter: Initials of the reporter.
        """
        if reporter not in self.reporters:
            raise ValueError(f"no reporter {reporter}")
        self.stories[slug]["reporter"] = reporter
        return {"slug": slug, "reporter": reporter}

    def file_copy(self, slug: str, words: int) -> dict:
        """File the copy of a story.

        Args:
            slug: Slug of the story.
            words: Length of the copy in words.
        """
        story = self.stories[slug]
        if not story["reporter"]:
            raise ValueError("nobody is assigned")
        story["words"], story["status"] = words, "filed"
        return {"slug": slug, "words": words, "status": "filed"}

    def approve_story(self, slug: str) -> dict:
        """Approve a filed story for print.

        Args:
            slug: Slug of the story.
        """
        story = self.stories[slug]
        if story["status"] != "filed":
            raise ValueError(f"story is {story['status']}")
        story["status"] = "approved"
        return {"slug": slug, "status": "approved"}

    def spike_story(self, slug: str) -> dict:
        """Drop a story from the paper.

        Args:
            slug: Slug of the story.
        """
        story = self.stories[slug]
        story["status"], story["page"] = "spiked", None
        return {"slug": slug, "status": "spiked"}

    def place_story(self, slug: str, page: str) -> dict:
        """Place a story on a page.

        Args:
            slug: Slug of the story.
            page: Number of the page, e.g. "3".
        """
        if page not in self.pages:
            raise ValueError(f"no page {page}")
        story = self.stories[slug]
        if story["status"] == "spiked":
            raise ValueError("story is spiked")
        used = sum(s["words"] for s in self.stories.values() if s["page"] == page)
        if used + story["words"] > self.pages[page]["room"]:
            raise ValueError("page is full")
        story["page"] = page
        return {
            "slug": slug,
            "page": page,
            "words_left": self.pages[page]["room"] - used - story["words"],
        }

    def change_headline(self, slug: str, headline: str) -> dict:
        """Change the headline of a story.

        Args:
            slug: Slug of the story.
            headline: The new headline, e.g. "Council votes for tram".
        """
        old = self.stories[slug]["headline"]
        self.stories[slug]["headline"] = headline
        return {"slug": slug, "old": old, "headline": headline}

    def check_story(self, slug: str) -> dict:
        """Check the status of a story.

        Args:
            slug: Slug of the story.
        """
        story = self.stories[slug]
        return {
            "slug": slug,
            "status": story["status"],
            "reporter": story["reporter"],
            "page": story["page"],
        }

    def show_page(self, page: str) -> dict:
        """Show which stories are on a page.

        Args:
            page: Number of the page.
        """
        placed = [k for k, s in self.stories.items() if s["page"] == page]
        return {"page": page, "editor": self.pages[page]["editor"], "stories": placed}

    def reporter_workload(self, reporter: str) -> dict:
        """See what a reporter is working on.

        Args:
            reporter: Initials of the reporter.
        """
        mine = [
            k
            for k, s in self.stories.items()
            if s["reporter"] == reporter and s["status"] in ("pitched", "filed")
        ]
        return {"reporter": reporter, "name": self.reporters[reporter]["name"], "stories": mine}

    def order_photo(self, slug: str, photographer: str, motif: str = "") -> dict:
        """Order a photo for a story.

        Args:
            slug: Slug of the story.
            photographer: Who takes it, e.g. "Lena" or "agency".
            motif: What the photo shows, e.g. "portrait of the mayor".
        """
        self.stories[slug].setdefault("photos", []).append({"by": photographer, "motif": motif})
        return {"slug": slug, "photos": len(self.stories[slug]["photos"])}

    def cut_story(self, slug: str, words: int) -> dict:
        """Shorten a story to a number of words.

        Args:
            slug: Slug of the story.
            words: New length in words.
        """
        story = self.stories[slug]
        if words >= story["words"]:
            raise ValueError(f"the story has only {story['words']} words")
        old, story["words"] = story["words"], words
        return {"slug": slug, "cut": old - words, "words": words}


newsroom = ToolClasses("newsroom", [Newsroom])
