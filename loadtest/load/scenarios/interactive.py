"""Single sentences at random moments, `--rate` a second for each user."""

from loadtest.load.scenarios.users import PoissonUser, sentence


class Interactive(PoissonUser):
    def translate(self) -> None:
        self.read_stream(sentence())
