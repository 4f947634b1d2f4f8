"""Every bound of the system, in one place, with its unit in the name.

A bound protects a process from its input: a frame, a count, a queue or a cache that could otherwise
grow without end. Settings that an operator may change live in `kaa.config`; what stands here is
what Kaa itself promises never to exceed, whatever the settings say.

The order is that of the data: a frame comes in and is decoded, records are judged, appended,
replicated and read; then the coordinators, the metadata and the tier beside that path; then those
who talk to a node: clients, commands, Spark, tests. Two reasons give most sizes:

- A node has one loop. What is done in one turn of it aims at a millisecond or two, so that nobody
  waits long for others: names with PER_TURN, PER_SLICE, PER_PIECE and ON_LOOP say how much that is
  of one kind of work.
- Memory. A cache or a queue holds so many entries that it stays a small part of a node of 100 MB.
"""

# --- the loop
# How much processor time one turn may use before it is reported (slices aim at half of it, or
# less), and how long it may stand still: clients notice a second.
LOOP_HELD_MS_MAX = 10
LOOP_BLOCKED_MS_MAX = 1_000
# Records that a controller, a quorum or a coordinator decides or applies before others are served.
RECORDS_PER_PIECE = 100
# One that is larger counts as several: the state of a transaction may name thousands of partitions.
SMALL_RECORD_BYTES = 128
# Pause before a duty of a node that failed unexpectedly is begun again: it must not fill the log.
DUTY_RETRY_SECONDS = 1.0
# A node that stops: how long it waits until its leaderships have moved, and then until requests
# that are under way are answered.
NODE_LEAVE_SECONDS_MAX = 5.0
NODE_DRAIN_SECONDS_MAX = 10.0

# --- connections
# Input is read into one buffer shared by the connections of a listener: large enough for
# one system call to bring most requests whole.
NET_SCRATCH_BYTES = 1 << 18
# The first size of a connection's own buffer, for a frame that did not arrive in one piece: a page.
NET_FRAME_BUFFER_BYTES_MIN = 1 << 12
# How much of a frame is read before others have their turn; one that is larger grows uncopied.
NET_RECEIVED_PER_TURN_BYTES_MAX = 1 << 20
# Frames of one connection that are dispatched before others have their turn, some 50 us each.
NET_FRAMES_PER_TURN_MAX = 32
# Answers of one connection that are not known yet, or wait for such; then its socket is not read.
# Java's producer has five under way.
NET_PARKED_ANSWERS_MAX = 1_000
# Bytes of answers that one connection has not taken; then its socket is not read. A few fetches.
NET_QUEUED_BYTES_MAX = 8 << 20
# Bytes of answers that one connection is sent before others have their turn, a millisecond or two:
# a client that reads as fast as it is written to would take the whole of a large answer at once.
NET_SENT_PER_TURN_BYTES_MAX = 1 << 20
# System calls that this may take, and parts of answers: one about ten thousand partitions has twice
# as many, and each small region of a file among them is read by a call of its own.
NET_SENDS_PER_TURN_MAX = 64
NET_PARTS_PER_TURN_MAX = 1 << 10
# Buffers that one of them takes, below every system's limit, and the pieces in which a region of a
# file is sent. A record of TLS holds 16 KiB; this much is read or written at once.
NET_PARTS_PER_SEND_MAX = 64
NET_FILE_PIECE_BYTES = 1 << 20
NET_TLS_BYTES = 1 << 16
# How much of a region a thread brings into memory at once, and how often it looks for need.
NET_WARMED_BYTES = 1 << 18
NET_PROBED_BYTES = 1 << 17
# Regions of files up to this size are copied: it costs less than the second call of `sendfile`.
NET_COPIED_REGION_BYTES_MAX = 8 << 10
# How long a client may take to send its first request, and how long it may take to finish a request
# that it has begun, which grows with what it has sent: a client that sends at this pace is kept.
# Both let through what a slow or lossy line needs, and end those who only hold a descriptor.
NET_FIRST_REQUEST_SECONDS_MAX = 30.0
NET_FRAME_SECONDS_MAX = 30.0
NET_FRAME_BYTES_PER_SECOND_MIN = 16 << 10
# How often connections are looked at for those that are too slow.
NET_SWEEP_SECONDS = 5.0
# Connections that a listener accepts before others have their turn.
NET_ACCEPTS_PER_TURN_MAX = 64
# How long a listener that ran out of descriptors rests, and how many are kept for files.
NET_ACCEPT_PAUSE_SECONDS = 0.2
NET_DESCRIPTORS_KEPT_MAX = 1_024
NET_SHORTAGE_REPORT_SECONDS = 60.0

# --- frames and messages
# Elements of all arrays of one message together, and tagged fields of one section. Each element
# costs an object far larger than its bytes, so the remaining length alone does not bound memory
# (CVE-2026-111108, -111115). A million partitions fit a request; brokers are trusted more.
WIRE_REQUEST_ELEMENTS_MAX = 1_000_000
WIRE_RESPONSE_ELEMENTS_MAX = 16_000_000
WIRE_TAGGED_FIELDS_MAX = 10_000
# The same before a connection is authenticated, when only ApiVersions and the SASL requests are
# decoded, which have a handful.
WIRE_UNAUTHENTICATED_ELEMENTS_MAX = 256
WIRE_UNAUTHENTICATED_TAGGED_FIELDS_MAX = 64
# A request header: two int16, one int32, one int16-prefixed client id, and its tagged fields.
WIRE_HEADER_TAGGED_FIELDS_MAX = 64
# Kafka's own bound on a string in either encoding.
WIRE_STRING_BYTES_MAX = 32_767
# Bytes of a field that the text of a message shows.
WIRE_SHOWN_BYTES_MAX = 32
# Bytes of a request above which it is decoded off the loop: what follows is some thousand entries,
# or a few large values. A produce of any size has few entries beside its records.
REQUEST_BYTES_ON_LOOP_MAX = 16 * 1024
# Entries of an answer above which it is encoded off the loop: a millisecond of encoding.
RESPONSE_ITEMS_ON_LOOP_MAX = 200

# --- records
# Streamed decompression hands out at most this much at a time where the codec leaves the choice
# (an lz4 block may have 4 MiB, a snappy block 64/3 times its input), from input slices this long.
DECOMPRESSION_CHUNK_BYTES = 64 * 1024
DECOMPRESSION_INPUT_SLICE_BYTES = 16 * 1024
# What a thread keeps of zstd between two batches; Kafka's levels need a window of 2 MiB.
DECOMPRESSOR_KEPT_BYTES_MAX = 8 * 1024 * 1024
# A batch or a record expanded in memory as a whole. Validation never does that. Five times what
# Kafka's largest request holds by default.
BATCH_EXPANDED_BYTES_MAX = 512 * 1024 * 1024
# Refused records that one answer names; the error of the batch stands without them.
RECORD_ERRORS_MAX = 1_000
# Records turned into objects before the first of them is handed out: a caller that wants one record
# does not pay for a batch of thousands.
RECORDS_DECODED_AT_ONCE = 256
# Kernel work of this size and above runs without the interpreter lock; below, dropping and taking
# the lock again costs more than it gives.
KERNEL_UNLOCKED_BYTES_MIN = 32 * 1024
# One read of record batches as Arrow columns; a caller may ask for less. A column of int32 offsets
# ends at 2 GiB, and both bounds together keep every column below it.
ARROW_READ_ROWS_MAX = 16 * 1024 * 1024
ARROW_READ_BYTES_MAX = 2**31 - 1
# Record batches are encoded into buffers of about this size, or of one batch.
ARROW_ENCODE_CHUNK_BYTES = 8 * 1024 * 1024
# The map of a log cleaner; Kafka's dedupe buffer has the same bound per thread.
OFFSET_MAP_BYTES_MAX = 2**31 - 1

# --- produce
# Batches of a produce request that expand to more are validated off the loop: a small batch can
# expand to gigabytes.
PRODUCE_ON_LOOP_EXPANDED_BYTES_MAX = 2 * 1024 * 1024
# Bytes of a produce request that are written on the loop, about a tenth of a millisecond; the
# writer thread of the directory takes what is above.
PRODUCE_ON_LOOP_WRITTEN_BYTES_MAX = 256 * 1024
# Batches of a produce request that are judged and appended at once, and those of a larger one that
# are in each turn of the loop: a millisecond or two of work, more where files have to be opened.
PRODUCE_BATCHES_AT_ONCE_MAX = 50
PRODUCE_BATCHES_PER_TURN_MAX = 16
# Partitions of one answer that are looked at for their replicas before others have a turn.
REPLICATION_LOOKS_PER_TURN_MAX = 500

# --- logs
# Buffers of one vectored write; the systems we run on take 1,024 and refuse more.
WRITE_VECTORS_MAX = 1_024
# Batch starts that a log remembers, so that reads at its end need no index: consumers that keep up
# are rarely further back.
LOG_RECENT_POSITIONS_MAX = 64
# Entries of an index in memory: at most this much unwritten, and as much of the last lookup. A
# page.
INDEX_BLOCK_BYTES = 4_096
# What a walk over a segment reads at once: to find one batch, of which an index entry is at most
# 4 KiB away by default, and to scan them all.
SEEK_WINDOW_BYTES = 8_192
SCAN_WINDOW_BYTES = 1024 * 1024
# A checkpoint names each partition of a log directory once: 200,000 of the longest names.
CHECKPOINT_FILE_BYTES_MAX = 64 * 1024 * 1024
# Producer state of one partition, as a file: ten million producers at 46 bytes.
PRODUCER_SNAPSHOT_BYTES_MAX = 512 * 1024 * 1024
# Different settings of topics that are kept for the logs that share them; most topics have the
# same.
LOG_CONFIGS_KEPT_MAX = 1_000
# Producers that are looked at before others have a turn, and those of which a snapshot is written
# on the loop; one of more is written with the next flush.
PRODUCERS_PER_SLICE_MAX = 2_000
PRODUCERS_WRITTEN_ON_LOOP_MAX = 500
# Segments of a log that are taken out of it in one turn of the loop; each is a handful of files to
# rename.
SEGMENTS_REMOVED_PER_TURN_MAX = 10
# Logs that are looked at before others have a turn, and those the cleaner examines, which costs
# several times as much.
LOGS_PER_SLICE_MAX = 500
LOGS_EXAMINED_PER_SLICE_MAX = 100
# Logs that one tick of the log manager looks at for due flushes and removals, and those whose old
# segments or idle producers it looks for; then the next tick goes on. How often one comes.
TICK_LOGS_MAX = 1_000
TICK_RETAINED_LOGS_MAX = 200
LOG_TICK_SECONDS = 1.0
# Logs that one task of a clean stop closes, and threads that do so: closing waits for the disk, and
# a disk takes some requests at once.
LOGS_PER_CLOSE_TASK = 50
LOG_CLOSING_THREADS = 16

# --- partitions and directories
# New partitions that get their logs in one turn of the loop; each is a millisecond or two of the
# disk.
PARTITIONS_MADE_PER_TURN_MAX = 1
# Partitions, or ranges of offsets, that a message of a start names; of others it counts how many.
PARTITIONS_NAMED_MAX = 5
# How long new folders are gathered before one sync of their directory makes all of them durable.
FOLDER_SYNC_DELAY_SECONDS = 0.25
# Partitions that change in one turn, those among them that end (a deletion takes some 250 us, and
# more where the disk is busy), and topics that get new settings.
PARTITIONS_CHANGED_PER_TURN_MAX = 20
PARTITIONS_ENDED_PER_TURN_MAX = 5
TOPIC_CONFIGS_PER_TURN_MAX = 5
# Changed partitions that a node follows in one turn of the loop, and deletions and settings.
PUBLISHED_PARTITIONS_PER_TURN_MAX = 150
PUBLISHED_CHANGES_PER_TURN_MAX = 1_000
# Partitions that are not here yet and for which a directory was asked for (AlterReplicaLogDirs):
# some 10 MB.
PREFERRED_DIRECTORIES_MAX = 100_000
# Places of damaged files that a log directory tells of, a line each.
DAMAGES_REPORTED_MAX = 1_000
# A move between directories: what is copied at once, and the tail that is copied while appends are
# held off, a few milliseconds. Batches of a copy that a thread looks at, logs whose moves one
# request begins or ends, and moves that take a step, before others have a turn.
MOVE_PIECE_BYTES = 1024 * 1024
MOVE_TAIL_BYTES_MAX = 256 * 1024
COPY_BATCHES_PER_SLICE_MAX = 200
MOVES_BEGUN_PER_SLICE_MAX = 2
MOVES_LOOKED_AT_PER_TURN_MAX = 100
# How long a command looks at moves to tell how fast they are.
MOVE_RATE_SECONDS_MAX = 5.0
# What commands leave free of a disk that replicas move to, if it is so large: enough to act upon.
DISK_KEPT_FREE_BYTES_MAX = 10 * 1024 * 1024 * 1024
# Replicas in one AssignReplicasToDirs, as in Kafka.
DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX = 2_250
# The pause before one that failed is sent again; it doubles each time.
DIRECTORY_ASSIGNMENTS_RETRY_MS_MIN = 100
DIRECTORY_ASSIGNMENTS_RETRY_MS_MAX = 10_000

# --- replication
# What a follower appends in one turn of the loop, in bytes and in batches (each one is checked);
# above the first bound the writer thread of the directory does the writing.
FOLLOWER_ON_LOOP_BYTES_MAX = 64 * 1024
FOLLOWER_PIECE_BYTES_MAX = 1024 * 1024
FOLLOWER_PIECE_BATCHES_MAX = 200
# Partitions whose state a follower takes over from an answer before others have a turn.
FOLLOWER_PARTITIONS_PER_TURN_MAX = 200
# How often a leader reads all partitions of a follower's session while the follower may be behind;
# in between it reads those with something new. Six times in `replica.lag.time.max.ms` keep a
# follower that is there in the in-sync set.
FOLLOWER_FULL_READS_PER_LAG = 6
# In-sync sets that one AlterPartition asks for, and the pause before a failed one is
# sent again.
ISR_CHANGES_PER_REQUEST_MAX = 2_000
ISR_RETRY_MS = 50
# Partitions that are looked at for replicas that fell behind before others have a turn.
ISR_CHECKS_PER_TURN_MAX = 500

# --- fetch and look-ups
# A fetch session is safe from displacement until it was idle, or has lived, this long. Fixed in
# Kafka.
FETCH_SESSION_EVICTION_MS = 120_000
# Partitions of a fetch that are read before others have a turn, a millisecond or two of work.
FETCH_PARTITIONS_PER_TURN_MAX = 125
# Batches that are larger, or compressed, are looked through for a timestamp off the loop.
SEARCH_ON_LOOP_BYTES_MAX = 64 * 1024
# Partitions of a metadata answer, resources whose settings are given (of some forty or three
# hundred settings each), logs that are given with their directories, partitions whose offsets are
# looked up, groups that are described, and names that are listed or refused, in one turn of the
# loop: about two milliseconds of work each.
METADATA_PARTITIONS_PER_SLICE_MAX = 250
CONFIG_RESOURCES_PER_SLICE_MAX = 1
DESCRIBED_LOGS_PER_SLICE_MAX = 200
OFFSETS_LISTED_PER_SLICE_MAX = 150
GROUPS_DESCRIBED_PER_SLICE_MAX = 50
NAMES_ANSWERED_PER_SLICE_MAX = 1_000
# Encoded answers to Metadata that a broker keeps until the metadata changes, and how many topics
# one of them may be asked for: to compare more takes as long as to answer.
METADATA_ANSWERS_MAX = 1_000
METADATA_ANSWERS_BYTES_MAX = 16 * 1024 * 1024
METADATA_QUESTION_TOPICS_MAX = 5_000
# Requests to coordinators that one request of a client begins before others have a turn.
PARTS_BEGUN_PER_TURN_MAX = 50

# --- coordinators
# The pause before a partition that could not be loaded is loaded again; it doubles each time. A
# slow disk is tried soon, a broken one does not fill the log.
COORDINATOR_LOAD_RETRY_SECONDS_MIN = 1.0
COORDINATOR_LOAD_RETRY_SECONDS_MAX = 60.0
# Changes of memory that are marked as committed, and deadlines that a machine acts on, before the
# loop serves others. A change is a step of a loop; a deadline may rebalance a group.
COORDINATOR_CHANGES_COMMITTED_PER_TURN_MAX = 2_000
COORDINATOR_DEADLINES_PER_TURN_MAX = 10
# A coordinator that comes later than this to its deadlines has not read its clients either, and
# gives the loop this long to do so before it believes that they are gone.
COORDINATOR_LATE_MS_MAX = 250
COORDINATOR_PATIENCE_MS = 50
# What a record costs in a batch besides its key and value: varints and attributes.
COORDINATOR_RECORD_OVERHEAD_BYTES_MAX = 32
# Hashes of groups, transactional ids and share partitions that are kept, some 100 bytes each.
COORDINATOR_KEY_HASHES_MAX = 10_000

# A regular expression of a client, and the memory to compile it in: less than 10 ms together.
REGEX_CHARACTERS_MAX = 2_000
REGEX_UNICODE_CLASSES_MAX = 8
REGEX_BYTES_MAX = 1 << 19

# --- groups
# Topics that a member names, characters of the names, protocols that it knows, and their metadata.
GROUP_SUBSCRIBED_NAMES_MAX = 20_000
GROUP_SUBSCRIBED_CHARACTERS_MAX = 1 << 20
CLASSIC_GROUP_PROTOCOLS_MAX = 1_000
CLASSIC_GROUP_METADATA_BYTES_MAX = 4 << 20
# How long a member whose first JoinGroup waits is kept without a sign of life. Fixed in Kafka.
CLASSIC_GROUP_NEW_MEMBER_JOIN_MS = 300_000
# Steps of an assignor that run in the heartbeat that asks for it, well below a microsecond each.
CONSUMER_GROUP_ASSIGNOR_STEPS_MAX = 4_000
# Partitions that a step of an assignor looks at, steps of a slice, and the pause after that.
CONSUMER_GROUP_ASSIGNOR_STEP_PARTITIONS_MAX = 250
CONSUMER_GROUP_ASSIGNOR_SLICE_STEPS_MAX = 4
CONSUMER_GROUP_ASSIGNOR_PAUSE_MS = 1
# How often an assignor evens out what members with different subscriptions have, as in Kafka.
CONSUMER_GROUP_ASSIGNOR_ROUNDS_MAX = 16
# Shortest time between two resolutions of the regular expressions of a group. Fixed in Kafka.
CONSUMER_GROUP_REGEX_REFRESH_MS_MIN = 10_000
# Matches in one go, up to 40 us each, and hashes of topics that match; several such make a slice.
CONSUMER_GROUP_REGEX_MATCHES_PER_STEP_MAX = 25
CONSUMER_GROUP_REGEX_HASHES_PER_STEP_MAX = 20
# Hashes of the topics of groups that are kept, and that are made in a turn, ten microseconds each.
GROUP_HASHES_MAX = 1_000
GROUP_TOPIC_HASHES_PER_PIECE = 100
# Topics and partitions of a share group that are looked at before others have a turn.
GROUP_TOPICS_PER_PIECE = 250
GROUP_PARTITIONS_PER_PIECE = 2_000
# Entries of a topology, and tasks that are assigned in one turn, a few microseconds each.
STREAMS_TOPOLOGY_ENTRIES_MAX = 10_000
STREAMS_TASKS_PER_PIECE = 500
# Names of topics of members that are put together in one turn, and hashes of names that are kept.
GROUP_NAMES_PER_PIECE = 20_000
GROUP_MEMBER_HASHES_MAX = 10_000
# Internal topics of which is kept why they were refused, and topics that one message names.
STREAMS_TOPIC_REFUSALS_MAX = 1_000
STREAMS_TOPICS_NAMED_MAX = 3

# --- transactions
# Partitions whose markers one request to a broker carries, or twice as many: what waits is taken
# until there are enough. The broker writes them in slices, and clients wait for all of a request.
TRANSACTION_MARKERS_PER_REQUEST_MAX = 500
# Markers that are written before others have a turn; each is an append to a log.
TRANSACTION_MARKERS_PER_TURN_MAX = 10
# The pause before a marker is sent again that a partition could not take: leaders change within
# some tenths of a second.
TRANSACTION_MARKER_RETRY_SECONDS = 0.1
# Transactions that a broker has decided and whose markers are not all written; then it decides no
# more, and clients ask again. Some kilobytes each, and far more than have ended within a second.
TRANSACTION_DECISIONS_UNDER_WAY_MAX = 50_000
# Partitions of a transaction that are looked at before others have a turn.
TRANSACTION_PARTITIONS_PER_TURN_MAX = 500
# Transactions that one request to a coordinator adds partitions to, or asks about.
TRANSACTION_ADDITIONS_PER_REQUEST_MAX = 1_000

# --- share groups
# How often a call to the share coordinator is tried while that moves or loads, and the pauses: five
# seconds in all, in which a coordinator has moved.
SHARE_STATE_ATTEMPTS_MAX = 8
SHARE_STATE_RETRY_SECONDS_MIN = 0.05
SHARE_STATE_RETRY_SECONDS_MAX = 2.0
# Partitions of one group whose share state is begun or deleted at the same time, and how often the
# group hears which are done while others wait for their coordinators.
SHARE_STATE_CALLS_MAX = 500
SHARE_STATE_REPORT_SECONDS = 0.5
# Calls about share state that begin in one round of the loop, some 150 us each until all that comes
# of one is done; and share partitions whose locks have run out, or whose member is gone, that are
# looked after in one turn.
SHARE_STATE_CALLS_PER_TURN_MAX = 20
SHARE_PARTITIONS_ENDED_PER_TURN_MAX = 50
# Ranges of offsets of a share partition that its coordinator reads, combines or answers at once.
SHARE_BATCHES_PER_PIECE = 500
# Bytes of one partition that one fetch of a share group reads; members get at most some hundreds of
# records at a time, and the read happens on the loop.
SHARE_READ_BYTES_MAX = 1_048_576
# As much of that is read at first, and a few times as much while the batches in it are not enough
# for what is asked: some hundreds of small records fit, and nothing is read that nobody gets.
SHARE_READ_PIECE_BYTES = 65_536
SHARE_READ_GROWTH_FACTOR = 4
# Partitions of a share session that are looked at, or answered, in one turn: up to 100 us each.
SHARE_PARTITIONS_PER_TURN_MAX = 60

# --- quorum
# Voters of the metadata quorum, of which a handful are enough, and listeners of each.
QUORUM_VOTERS_MAX = 128
QUORUM_LISTENERS_MAX = 100
# The last epoch of a quorum, of 32 bits on the wire: elections, each one epoch on, never get there.
QUORUM_EPOCHS_MAX = 2**31 - 3
# Observers that DescribeQuorum tells of, and how long after their last fetch (as in Kafka).
QUORUM_OBSERVERS_MAX = 10_000
QUORUM_OBSERVER_SESSION_MS = 300_000
# Fetches that wait at the leader for records, one of each observer; others get nothing at once.
QUORUM_PARKED_FETCHES_MAX = 10_000
# What one answer to another replica carries, of the log beyond the first batch or of a snapshot,
# however much it asks for: an answer is in memory.
QUORUM_PIECE_BYTES_MAX = 8 * 1024 * 1024
# How long ago a replica may have had everything to be made a voter, as in Kafka.
QUORUM_CAUGHT_UP_MS_MAX = 3_600_000
# Before a controller asks again to become a voter, after a refusal that only an operator can mend.
QUORUM_JOIN_REFUSED_PAUSE_MS = 60_000
# Before another replica is asked again that refused a request for such a reason.
QUORUM_REFUSED_PAUSE_MS = 5_000
# Without a leader that answers for longer than elections take, a replica says so, once.
QUORUM_LEADERLESS_MS_MAX = 15_000
# Transitions kept to explain a fault: the last few elections.
QUORUM_STORY_LINES_MAX = 64
# Transitions that one event may lead to before its effects leave: more is a fault of the machine.
QUORUM_TRANSITIONS_PER_EVENT_MAX = 16
# Between two dials of a node that cannot be reached; doubled each time, as Kafka's controllers do.
PEER_RECONNECT_PAUSE_MS = 50
PEER_RECONNECT_PAUSE_MS_MAX = 500

# --- metadata
# A batch of the metadata log, as in Kafka, and the records of one operation of the controller.
METADATA_BATCH_BYTES_MAX = 8 * 1024 * 1024
METADATA_RECORDS_PER_OPERATION_MAX = 10_000
# Partitions that one request may create, and a timer gives another leader at once, as in Kafka.
METADATA_PARTITIONS_PER_REQUEST_MAX = 10_000
METADATA_ELECTIONS_PER_ROUND_MAX = 1_000
# Sessions of brokers that were heard of; above it those of nobody who is registered are not noted.
METADATA_SESSIONS_MAX = 10_000
# Features that a node names when it registers; its listeners are those of a voter at most.
METADATA_NODE_FEATURES_MAX = 100
# Partitions whose leader is chosen again, resources whose settings are judged, and topics that are
# judged, before others are served.
METADATA_ELECTIONS_PER_PIECE = 50
METADATA_CONFIGS_PER_PIECE = 10
METADATA_TOPICS_PER_PIECE = 20
# Reports of the settings of new topics that a controller keeps, each of some forty settings: topics
# that are created together have the same.
METADATA_TOPIC_REPORTS_MAX = 20
# A value of a setting that the cluster keeps: a string of the wire format cannot be longer.
METADATA_CONFIG_VALUE_CHARACTERS_MAX = 32_767
# A batch of a snapshot is closed when it has this much; what writes it pauses there.
METADATA_SNAPSHOT_BATCH_BYTES = 64 * 1024
# What a replay of the metadata log reads at once.
METADATA_READ_BYTES = 1024 * 1024
# How often old metadata is looked for, and how long its files are kept under another name: readers
# may have them open. The second is fixed in Kafka.
METADATA_CLEAN_SECONDS = 60.0
METADATA_DELETE_DELAY_MS = 60_000
# Between two questions for a controller that is not active, or not known: an election takes a
# second or two.
CONTROLLER_RETRY_PAUSE_MS = 50
CONTROLLER_RETRY_PAUSE_MS_MAX = 1_000
# Before a controller registers again after another process has registered in its place: each time
# is a record in the metadata log.
REPLACED_CONTROLLER_PAUSE_MS = 1_000
REPLACED_CONTROLLER_PAUSE_MS_MAX = 60_000

# --- tier
# One part of a multipart upload, and how many of them travel at a time for one object. S3 takes
# parts from 5 MiB on, and 10,000 of them: enough for a segment of any size.
TIER_PART_BYTES = 8 * 1024 * 1024
TIER_PARTS_IN_FLIGHT_MAX = 4
# What a walk over a whole remote object reads at once.
TIER_READ_BYTES = 8 * 1024 * 1024
# How often a request to a store is sent again, and for how long; then the round fails, and the next
# one tries.
TIER_STORE_RETRIES_MAX = 8
TIER_STORE_RETRY_SECONDS_MAX = 60.0
# Objects of one page of a listing: the most that S3 gives.
TIER_LISTED_OBJECTS = 1_000
# How long the reader of the remote log metadata waits for records before it looks for other work
# and for an answer of another kind, how many records it applies before others have their turn, and
# the longest pause after a failure.
TIER_METADATA_POLL_MS = 500
TIER_METADATA_ANSWER_SECONDS = 5.0
TIER_METADATA_RECORDS_PER_TURN = 200
TIER_METADATA_RETRY_SECONDS_MAX = 10.0
# Pieces in which remote logs are read and kept, and what is read at once to find a batch in one.
TIER_CHUNK_BYTES = 4 * 1024 * 1024
TIER_SEEK_BYTES = 64 * 1024
# What of remote logs is kept in memory: 16 pieces, and indexes, 5 MB for a segment of a GiB.
TIER_CHUNK_CACHE_BYTES_MAX = 64 * 1024 * 1024
TIER_INDEX_CACHE_BYTES_MAX = 32 * 1024 * 1024
# How soon those who wait for a quota look whether it was raised.
TIER_QUOTA_PAUSE_MS_MAX = 1_000

# --- configuration
# A properties file, the settings in it, and one setting. A PEM chain in a setting is the longest
# honest value.
CONFIG_FILE_BYTES_MAX = 4 * 1024 * 1024
CONFIG_SETTINGS_MAX = 20_000
CONFIG_VALUE_CHARACTERS_MAX = 1024 * 1024
CONFIG_LIST_ENTRIES_MAX = 10_000
# How much of a refused value a message repeats: enough to find it in the file.
CONFIG_SHOWN_CHARACTERS_MAX = 512

# --- client
# The largest answer that a client takes: a fetch answer may be one batch above `fetch.max.bytes`.
CLIENT_FRAME_BYTES_MAX = 512 * 1024 * 1024
# Input of a connection is read in such pieces until the size of a large answer is known.
CLIENT_SCRATCH_BYTES = 1 << 16
# Requests of one connection that were sent and not answered; a producer has five.
CLIENT_IN_FLIGHT_REQUESTS_MAX = 1_000
# Fetch answers per partition that wait for a poll; then the partition is not fetched. One is taken
# while the next one waits.
CLIENT_FETCHED_CHUNKS_MAX = 2
# How often a producer looks for batches that ran out of time, of which they have seconds.
CLIENT_EXPIRY_INTERVAL_MS = 100
# How much longer than a rebalance may take a member waits for JoinGroup, as in Java's client.
CLIENT_JOIN_EXTRA_MS = 5_000
# How long the last commit of a consumer and its farewell may take together, as in Java's client,
# and the abort of what a producer leaves open: its coordinator does that later by itself.
CLIENT_CLOSE_MS_MAX = 30_000
# Records that threads have handed over and the producer has not yet taken.
CLIENT_SYNC_SENDS_MAX = 10_000
# How long the end of a program waits for records of a producer that it did not close.
CLIENT_EXIT_FLUSH_SECONDS_MAX = 10
# The largest token, or answer of its provider, that a client takes; usual ones have some kilobytes.
CLIENT_TOKEN_BYTES_MAX = 1 << 20
# How often a provider is asked for a token before a connection fails, and rounds of hashing that a
# server may ask for: it must not keep a client busy for ever.
CLIENT_TOKEN_ATTEMPTS_MAX = 3
CLIENT_SCRAM_ITERATIONS_MAX = 10_000_000
# Partitions that one line of a client's log names.
CLIENT_PARTITIONS_SHOWN_MAX = 20
# Pause between two warnings of a client about the same trouble while it lasts, and troubles that it
# remembers to have spoken of.
CLIENT_COMPLAINT_INTERVAL_MS = 30_000
CLIENT_COMPLAINTS_MAX = 1_000

# --- commands
# Partitions that one command line may name: a range such as 0-2000000000 must not fill memory.
CLI_PARTITIONS_NAMED_MAX = 10_000
# Replicas that a command names in one line: nobody reads more.
CLI_REPLICAS_NAMED_MAX = 20
# Brokers that one `kaa host` runs.
CLI_BROKERS_MAX = 256
# Input is read in pieces, so many ahead of what is produced; records of which a command waits for
# the deliveries together, enough to fill requests; and records that it takes from one poll.
CLI_INPUT_PIECE_BYTES = 64 * 1024
CLI_INPUT_PIECES_AHEAD_MAX = 4
CLI_DELIVERIES_AWAITED_MAX = 10_000
CLI_POLLED_RECORDS_MAX = 1_000
# Records that `kaa perf` sends before the loop has a turn, so that answers are seen meanwhile.
CLI_PERF_RECORDS_PER_TURN = 100
# Columns of a value that `kaa tail` shows, and names of one kind kept for completion in a shell.
CLI_TAIL_VALUE_COLUMNS_MAX = 2_000
CLI_COMPLETED_NAMES_MAX = 10_000
# How long a program may take that a profile names, and one check of `kaa doctor`.
CLI_PROFILE_COMMAND_SECONDS_MAX = 30
CLI_PROBE_SECONDS_MAX = 10
# What a support bundle holds: how long one part of it may take, the end of each log, and files of
# a directory that are listed.
CLI_BUNDLE_PART_SECONDS_MAX = 120
CLI_BUNDLE_LOG_BYTES_MAX = 20 * 1024 * 1024
CLI_BUNDLE_FILES_MAX = 200_000
# Nodes that a supervisor keeps: the pause before one that ended by itself starts again, which
# doubles while it keeps failing.
RESTART_PAUSE_SECONDS_MIN = 1.0
RESTART_PAUSE_SECONDS_MAX = 60.0

# --- formats
# How deep a schema of values may be nested: one that refers to itself has to end somewhere.
FORMAT_SCHEMA_DEPTH_MAX = 64
# Schemas of a registry that a process remembers, those of which it keeps the decoders, and how long
# it takes the latest one for granted.
REGISTRY_SCHEMAS_CACHED_MAX = 10_000
FORMAT_DECODERS_CACHED_MAX = 1_000
REGISTRY_LATEST_SECONDS = 60.0
# An answer of a registry, how long it may take, and attempts at one.
REGISTRY_ANSWER_BYTES_MAX = 16 * 1024 * 1024
REGISTRY_ANSWER_SECONDS_MAX = 30.0
REGISTRY_ATTEMPTS_MAX = 3
# Characters of the reason why a value could not be decoded: it is a column of every such row.
FORMAT_REASON_CHARACTERS_MAX = 500
# Columns of JSON that nobody has described: how deep, and how many names of one object. Objects
# with more are maps whose keys are data.
FORMAT_INFERRED_DEPTH_MAX = 16
FORMAT_INFERRED_FIELDS_MAX = 1_000
# What is looked at of a topic to find them, and of how many of its partitions.
FORMAT_SAMPLE_ROWS = 1_000
FORMAT_SAMPLE_BYTES_MAX = 4 * 1024 * 1024
FORMAT_SAMPLED_PARTITIONS_MAX = 16

# --- Spark
# What a task asks for in one fetch, and the rows and bytes of one Arrow batch that it hands over:
# large enough for the cost of a batch not to count, small enough to overlap reading and decoding.
SPARK_FETCH_BYTES = 4 * 1024 * 1024
SPARK_BATCH_ROWS_MAX = 20_000
SPARK_BATCH_BYTES_MAX = 4 * 1024 * 1024
# How long one fetch waits at the broker when a task is at the end of what there is.
SPARK_FETCH_WAIT_MS = 500
# Clusters, with other settings each, that a Python worker keeps connections to.
SPARK_CLUSTERS_CONNECTED_MAX = 8
# What is fetched to learn how large the batches of a partition are, and from how many partitions.
SPARK_SAMPLE_BYTES = 64 * 1024
SPARK_SAMPLED_PARTITIONS_MAX = 100
# How long the mean size of the records of topics is taken for granted.
SPARK_SIZES_SECONDS = 30.0
# Queries whose metrics are served, how often the server looks whether its session has ended, and
# how long it serves one request.
SPARK_METRICS_QUERIES_MAX = 1_000
SPARK_METRICS_LOOK_SECONDS = 0.5
SPARK_METRICS_REQUEST_SECONDS_MAX = 10.0

# --- Spark, exactly once
# How often a driver looks whether a decision of the exactly-once sink was taken.
SPARK_DECISION_ATTEMPTS_MAX = 10
# Partitions of the topic of decisions, and names that a task of that sink tries.
SPARK_COMMITS_PARTITIONS = 16
SPARK_TASK_ATTEMPTS_MAX = 20
# Transactions of a batch that are being committed or aborted at once.
SPARK_ENDS_IN_FLIGHT_MAX = 32
# Producer ids that a process keeps for its next tasks.
SPARK_PRODUCERS_IDLE_MAX = 32
# How long the sink waits for the markers of a batch, which brokers write after they have answered.
SPARK_MARKERS_WAIT_MS = 30_000
# After a failure, how often a driver looks for what killed tasks left open, and the pause between.
SPARK_ABORT_SWEEPS = 3
SPARK_KILLED_TASKS_PAUSE_MS = 500

# --- Spark on the tier
# What a task reads from the store of tiered segments, about: the size of Spark's own file splits.
# One get of it, and how many are under way at a time for one task.
SPARK_TIER_TASK_BYTES = 128 * 1024 * 1024
SPARK_TIER_GET_BYTES = 8 * 1024 * 1024
SPARK_TIER_GETS_IN_FLIGHT_MAX = 3
# How long a get may take, how often it is tried, and the first pause between.
SPARK_TIER_GET_SECONDS_MAX = 120.0
SPARK_TIER_GET_ATTEMPTS_MAX = 4
SPARK_TIER_GET_PAUSE_SECONDS = 0.25
# An audit calls segments below this size small: each costs several requests to read.
SPARK_TIER_SMALL_SEGMENT_BYTES = 16 * 1024 * 1024
# Transaction indexes that a driver reads at once.
SPARK_TIER_INDEXES_IN_FLIGHT_MAX = 16
# After so many records of a metadata partition a driver leaves a snapshot for the next one.
SPARK_TIER_SNAPSHOT_RECORDS = 2_000

# --- tables
# Rounds of a table that may fail in a row before the committer gives up.
LAKE_ATTEMPTS_MAX = 5
# Before a table that could not be looked at is looked at again, doubled with each failure in a row.
LAKE_PAUSE_SECONDS = 0.5
# Between two rounds of a committer that has read all there was; upserts look keys up, which costs
# more the more often it is done.
LAKE_ROUND_SECONDS = 10.0
LAKE_UPSERT_ROUND_SECONDS = 60.0
# Records that one round reads at most by default, and those worth a task.
LAKE_ROUND_ROWS = 5_000_000
LAKE_TASK_ROWS_MIN = 50_000
# A file is closed when it has this much, a row group when it has this many rows or bytes in memory.
LAKE_FILE_BYTES = 128 * 1024 * 1024
LAKE_ROW_GROUP_ROWS_MAX = 1_000_000
LAKE_ROW_GROUP_BYTES = 64 * 1024 * 1024
# Row groups of files that are sorted by a key, small so that few bytes are read to find one.
LAKE_KEYED_ROW_GROUP_ROWS = 20_000
# Files that one task has open at once, each with a row group in memory; more parts than that make
# it close the oldest.
LAKE_OPEN_FILES_MAX = 64
# A bucket of an upsert table is rewritten when this share of its rows is deleted, and small
# files of it are written together when there are so many, up to one this many times their size.
LAKE_DELETED_SHARE_MAX = 0.25
LAKE_BUCKET_FILES_MAX = 8
# Its files with deleted positions are written together when there are more than so many.
LAKE_BUCKET_DELETES_MAX = 8
LAKE_BUCKET_GROWTH_FACTOR = 4
# Versions of a Parquet folder from one manifest that lists all its files to the next one.
LAKE_FULL_MANIFEST_VERSIONS = 50
# Files that no commit names are left alone for this long: their commit may be on its way. A day is
# longer than any round.
LAKE_ORPHAN_AGE_SECONDS = 86_400.0
# Files smaller than this share of the wanted size are worth compacting.
LAKE_SMALL_FILE_SHARE = 0.5
# Groups of files whose compaction is committed together, at least.
LAKE_COMMIT_GROUPS = 16
# Care of a committer for its table: how often it looks, how many files, files with deletes or
# manifests are many, and the share of time that care may take.
LAKE_CARE_SECONDS = 300.0
LAKE_CARE_FILES_MAX = 100
LAKE_CARE_SHARE_MAX = 0.2
# What the expiry of tables keeps: the newest versions, and those of a week.
LAKE_KEEP_VERSIONS = 10
LAKE_KEEP_SECONDS = 7 * 86_400.0

# --- pipelines
# Between two looks at the queries of a run, and when a run that says nothing counts as lost.
PIPELINE_LOOK_SECONDS = 0.5
PIPELINE_STALE_SECONDS = 30.0
# Between two looks at the sizes of topics, from which rates in bytes are estimated.
PIPELINE_SIZES_SECONDS = 30.0

# --- testing
# How long a node of a test may take to start, and to stop, and how long a helper waits for one
# answer of it: on a crowded machine too.
TESTING_START_SECONDS_MAX = 30.0
TESTING_STOP_SECONDS_MAX = 30.0
TESTING_ANSWER_SECONDS_MAX = 30.0
# Between two looks at something that is waited for: tests take milliseconds.
TESTING_POLL_SECONDS = 0.01
# What a helper asks for in one fetch, and rows of a stream that a test gets as a list.
TESTING_FETCH_BYTES_MAX = 16 * 1024 * 1024
TESTING_ROWS_MAX = 100_000
# How far the clock of a broker is moved at once; after 24 days it would count as lost.
TESTING_ADVANCE_DAYS_MAX = 20
# Requests that are remembered for the report of a failed test, and those it shows: a screen.
TESTING_REQUESTS_REMEMBERED_MAX = 1_000
TESTING_REQUESTS_SHOWN_MAX = 30
# Records at the end of each topic, and topics, that such a report shows.
TESTING_RECORDS_SHOWN_MAX = 5
TESTING_TOPICS_SHOWN_MAX = 10
# Characters of a key or value in a report or a difference: a line.
TESTING_SHOWN_CHARACTERS_MAX = 100
# Characters that the name of a topic takes over from that of its test.
TESTING_NAME_CHARACTERS_MAX = 100
# Deliveries to members of share groups that are remembered, each of some records.
TESTING_DELIVERIES_REMEMBERED_MAX = 100_000
