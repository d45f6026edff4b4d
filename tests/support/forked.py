"""Processes that find torch loaded: a server imports it once, without threads, and forks for each of them."""

import multiprocessing

LOADED = ["torch._dynamo", "torch.distributed", "limner.research.systems.complementary"]


def started(target, *calls):
    """A process for each tuple of arguments of a function of a module."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(LOADED)
    processes = [server.Process(target=target, args=call) for call in calls]
    for process in processes:
        process.start()
    return processes


def codes(processes, patience_s=300):
    """Exit codes; who does not end in time is killed."""
    try:
        for process in processes:
            process.join(patience_s)
        return [process.exitcode for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.join()
