"""gRPC's client side over a unix socket, as much of it as containerd needs: unary calls and streams, deadlines, status.

Not grpcio: its core costs an agent 12 MB and, with its threads, two thirds of a millisecond of processor for each call,
and a Task takes fourteen. No TLS, compression, retries or balancing here; messages are protobuf's, and no thread is made.
"""

from iris_runtimes.rpc.call import EOF
from iris_runtimes.rpc.channel import Channel
from iris_runtimes.rpc.errors import RpcError, StatusCode
from iris_runtimes.rpc.service import Service

__all__ = ["EOF", "Channel", "RpcError", "Service", "StatusCode"]
