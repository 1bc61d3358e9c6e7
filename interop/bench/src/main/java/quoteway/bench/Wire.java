package quoteway.bench;

import com.refinitiv.eta.codec.Buffer;
import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.CodecReturnCodes;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.EncodeIterator;
import com.refinitiv.eta.codec.FieldEntry;
import com.refinitiv.eta.codec.FieldList;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.RealHints;
import com.refinitiv.eta.codec.RefreshMsg;
import com.refinitiv.eta.codec.RequestMsg;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.codec.UpdateMsg;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.rdm.InstrumentNameTypes;
import com.refinitiv.eta.rdm.Login;
import java.nio.ByteBuffer;
import java.util.Arrays;

/** The messages of the pair, as ETA encodes them. */
final class Wire {
    /** The field that carries the intended time of sending: {@code System.nanoTime()}, which is one clock for all processes of a machine. */
    static final int STAMP_FIELD = 3902;

    /** Where a stream id stands in every message. */
    static final int STREAM_ID_OFFSET = 4;

    private static final long STAMP_MARK = 0xF0E1_D2C3_B4A5_9687L;

    private Wire() {}

    static byte[] login(int streamId, String user) {
        var request = (RequestMsg) message(MsgClasses.REQUEST, streamId);
        request.domainType(DomainTypes.LOGIN);
        request.applyStreaming();
        request.msgKey().applyHasName();
        request.msgKey().name().data(user);
        request.msgKey().applyHasNameType();
        request.msgKey().nameType(Login.UserIdTypes.NAME);
        request.containerType(DataTypes.NO_DATA);
        return encode(request, false);
    }

    static byte[] request(int streamId, String item, int service) {
        var request = (RequestMsg) message(MsgClasses.REQUEST, streamId);
        request.applyStreaming();
        request.applyHasPriority();
        request.priority().priorityClass(1);
        request.priority().count(1);
        request.msgKey().applyHasServiceId();
        request.msgKey().serviceId(service);
        request.msgKey().applyHasName();
        request.msgKey().name().data(item);
        request.msgKey().applyHasNameType();
        request.msgKey().nameType(InstrumentNameTypes.RIC);
        request.containerType(DataTypes.NO_DATA);
        return encode(request, false);
    }

    static byte[] image() {
        var refresh = (RefreshMsg) message(MsgClasses.REFRESH, 0);
        refresh.applySolicited();
        refresh.applyRefreshComplete();
        refresh.applyClearCache();
        refresh.state().streamState(StreamStates.OPEN);
        refresh.state().dataState(DataStates.OK);
        refresh.containerType(DataTypes.FIELD_LIST);
        return encode(refresh, true);
    }

    /** An update of about 85 bytes: quote, sizes, last, volume and the stamp. */
    static byte[] update() {
        var update = (UpdateMsg) message(MsgClasses.UPDATE, 0);
        update.applyHasSeqNum();
        update.seqNum(1);
        update.applyDoNotConflate();
        update.containerType(DataTypes.FIELD_LIST);
        return encode(update, true);
    }

    /** Where the eight bytes of the stamp stand in an encoded message. */
    static int stampOffset(byte[] message) {
        ByteBuffer bytes = ByteBuffer.wrap(message);
        for (int i = 0; i + 8 <= message.length; i++) {
            if (bytes.getLong(i) == STAMP_MARK) {
                return i;
            }
        }
        throw new IllegalStateException("no stamp in the message");
    }

    private static Msg message(int msgClass, int streamId) {
        Msg msg = CodecFactory.createMsg();
        msg.msgClass(msgClass);
        msg.streamId(streamId);
        msg.domainType(DomainTypes.MARKET_PRICE);
        return msg;
    }

    private static byte[] encode(Msg msg, boolean fields) {
        Buffer buffer = CodecFactory.createBuffer();
        buffer.data(ByteBuffer.allocate(512));
        EncodeIterator it = CodecFactory.createEncodeIterator();
        it.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion());
        if (fields) {
            check(msg.encodeInit(it, 0));
            fieldList(it);
            check(msg.encodeComplete(it, true));
        } else {
            check(msg.encode(it));
        }
        return Arrays.copyOf(buffer.data().array(), buffer.length());
    }

    private static void fieldList(EncodeIterator it) {
        FieldList list = CodecFactory.createFieldList();
        list.applyHasStandardData();
        check(list.encodeInit(it, null, 0));
        FieldEntry entry = CodecFactory.createFieldEntry();
        int[] reals = {22, 25, 30, 31, 6, 178, 32, 11};
        for (int i = 0; i < reals.length; i++) {
            var real = CodecFactory.createReal();
            real.value(1_234_567 + i, i < 2 ? RealHints.EXPONENT_2 : RealHints.EXPONENT0);
            entry.clear();
            entry.fieldId(reals[i]);
            entry.dataType(DataTypes.REAL);
            check(entry.encode(it, real));
        }
        var stamp = CodecFactory.createUInt();
        stamp.value(STAMP_MARK);
        entry.clear();
        entry.fieldId(STAMP_FIELD);
        entry.dataType(DataTypes.UINT);
        check(entry.encode(it, stamp));
        check(list.encodeComplete(it, true));
    }

    private static void check(int ret) {
        if (ret < CodecReturnCodes.SUCCESS) {
            throw new IllegalStateException("ETA cannot encode: " + CodecReturnCodes.toString(ret));
        }
    }
}
