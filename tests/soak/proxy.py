"""A TCP proxy whose network can be made bad while it runs."""
import asyncio
import random
import threading

CHUNK = 16384


class Proxy:
    """Forwards connections to its own port to `target` ("HOST:PORT"), on a thread of its own. The test's thread sets
    the attributes below; they also apply to open connections."""

    def __init__(self, target, seed=1):
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.delay_s = 0.0           # each direction
        self.bytes_per_s = None      # each direction of each connection
        self.stall_fraction = 0.0    # of all chunks
        self.stall_s = 0.5
        self.swallowing = False      # half-open: connections are accepted, and nothing is forwarded
        self.refusing = False        # new connections are closed at once
        self.forwarded_bytes = 0
        self.connections = 0
        self._draw = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._writers = set()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait(10)
        self.address = "127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]

    def cut(self):
        """Closes every connection and refuses new ones, until `mend`."""
        self.refusing = True
        self._loop.call_soon_threadsafe(self._close_all)

    def mend(self):
        """Forwards without any fault. Connections from the time of a half-open network are closed."""
        was_swallowing, self.swallowing, self.refusing = self.swallowing, False, False
        self.delay_s, self.bytes_per_s, self.stall_fraction = 0.0, None, 0.0
        if was_swallowing:
            self._loop.call_soon_threadsafe(self._close_all)

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self, started):
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        started.set()
        self._loop.run_forever()
        self._close_all()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))

    def _close_all(self):
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader, writer):
        if self.refusing:
            return writer.transport.abort()
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            return writer.transport.abort()
        ends = {writer, far_writer}
        self._writers |= ends
        try:
            await asyncio.wait([asyncio.ensure_future(self._forward(reader, far_writer)), asyncio.ensure_future(self._forward(far_reader, writer))],
                               return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _forward(self, reader, writer):
        queue = asyncio.Queue(1024)
        deliver = asyncio.ensure_future(self._deliver(queue, writer))
        try:
            while data := await reader.read(CHUNK):
                await queue.put((self._loop.time() + self.delay_s, data))
        except OSError:
            pass
        finally:
            deliver.cancel()

    async def _deliver(self, queue, writer):
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            while self.swallowing:
                await asyncio.sleep(0.05)
            if self._draw.random() < self.stall_fraction:
                await asyncio.sleep(self.stall_s)
            if self.bytes_per_s:
                await asyncio.sleep(len(data) / self.bytes_per_s)
            try:
                writer.write(data)
                await writer.drain()
            except OSError:
                return
            self.forwarded_bytes += len(data)
