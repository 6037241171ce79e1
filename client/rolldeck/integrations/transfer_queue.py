"""Backend ``rolldeck`` of TransferQueue 0.1.11, which verl V1 and NeMo-RL use.

The platform stores the samples durably. The first `transfer_queue.init` of a new controller gives
it the stored samples of earlier ones.
"""

import logging
from typing import Any, Final

from transfer_queue.client import AsyncTransferQueueClient, TransferQueueClient
from transfer_queue.storage.bootstrap.provider import StorageBootstrapProvider
from transfer_queue.storage.clients.base import StorageClientFactory
from transfer_queue.storage.managers.base import StorageManagerFactory

from rolldeck.integrations.transfer_queue_restore import restore
from rolldeck.integrations.transfer_queue_storage import (
    BACKEND,
    RolldeckStorageClient,
    RolldeckStorageManager,
)

logger = logging.getLogger(__name__)


def register() -> None:
    """Register the backend in this process.

    Every process that calls `transfer_queue.init` needs it: set it as Ray's
    `worker_process_setup_hook`.
    """
    StorageClientFactory.register(BACKEND)(RolldeckStorageClient)
    StorageManagerFactory.register(BACKEND)(RolldeckStorageManager)
    StorageBootstrapProvider.register_provider(BACKEND)(_bootstrap)
    AsyncTransferQueueClient.async_set_custom_meta = _set_tags


# TransferQueue sends tags to the controller without the storage manager.
_send_tags: Final = AsyncTransferQueueClient.async_set_custom_meta


async def _set_tags(client: Any, metadata: Any) -> None:
    """Store the tags of samples, then send them to the controller."""
    manager = getattr(client, "storage_manager", None)
    if isinstance(manager, RolldeckStorageManager):
        await manager.store_tags(metadata)
    await _send_tags(client, metadata)


def _bootstrap(conf: Any) -> dict[str, Any]:
    """Give the stored samples to a new controller, unless `restore` is false."""
    settings = conf.backend[BACKEND]
    if settings.get("restore", True):
        client = TransferQueueClient(f"{BACKEND}-restore", conf.controller.zmq_info)
        try:
            client.initialize_storage_manager(BACKEND, settings)
            restored = restore(client)
        finally:
            client.close()
        logger.info("restored samples by partition: %s", restored.samples)
    return {}
