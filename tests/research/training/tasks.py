"""A task for the loop that keeps nothing between steps."""


class PlainTask:
    def describe(self, batch):
        return ", ".join(batch.ids)

    def open(self, folder):
        pass

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass
