package kaa.oracle;

import com.fasterxml.jackson.databind.node.ObjectNode;

/** A failure that has more to tell than its class, message and code. */
final class FailureWithDetail extends Exception {
    private static final long serialVersionUID = 1L;

    final transient ObjectNode detail;

    FailureWithDetail(Throwable cause, ObjectNode detail) {
        super(cause);
        this.detail = detail;
    }
}
