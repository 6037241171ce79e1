"""Admin of followers."""

from buffer.followers.models import Follower
from web.admin.read_only import register_read_only

register_read_only(Follower, columns="name run_link environment min_score cursor_id acked_at")
