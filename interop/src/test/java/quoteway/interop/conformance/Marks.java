package quoteway.interop.conformance;

import com.refinitiv.ema.access.ComplexType;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Values;

/**
 * Numbers that go behind everything else, on the connections of the actors themselves: an update from a provider down to a consumer, and a generic
 * message back up. What has not come before them does not come any more.
 */
final class Marks {
    private static final int FIELD = 32;

    /** A provider with a service of its own for them. */
    interface Source {
        /** The name of that service. Each consumer has an item there, with {@link Consumer#mark} as its name. */
        String marks();

        /** A mark goes down to this consumer as an update of a type, behind all that was sent before. */
        void marksDown(String consumer, int updateType, long number);

        /** Waits for a mark to come up from this consumer. */
        void awaitMark(String consumer, long number);

        /** Whether marks come up to it. */
        default boolean takesMarks() {
            return true;
        }
    }

    private Marks() {}

    static ComplexType body(long number) {
        var fields = Message.newFields();
        fields.put(FIELD, Values.Real.whole(number));
        return Ema.fields(fields);
    }

    /** A mark on its way down. */
    static UpdateMsg update(int type, long number) {
        return EmaFactory.createUpdateMsg().domainType(EmaRdm.MMT_MARKET_PRICE).updateTypeNum(type).payload(body(number));
    }

    static long number(Message message) {
        return ((Values.Real) message.fields().get(FIELD)).mantissa();
    }
}
