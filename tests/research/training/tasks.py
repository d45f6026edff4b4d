"""A task for the loop that keeps nothing between steps."""


class PlainTask:
    def describe(self, batch):
        return ", ".join(batch.ids)

    def open(self, folder):
        pass

    def memory(self):
        return {}

    def remember(self, memory):
        pass
