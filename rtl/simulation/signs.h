// Verilator's arithmetic of signed numbers, as one instruction each.
//
// A simulation spends much of its time in extending signs. Verilator writes `-(value & sign) | value`, from which GCC
// makes three instructions; from two shifts it makes one, a move, where the width is that of a C++ type. This stands
// behind Verilator's own definitions, and in front of the machine.

namespace tilewright {

inline int32_t signed_32(int bits, uint32_t value) {
    return static_cast<int32_t>(value << (32 - bits)) >> (32 - bits);
}

inline int64_t signed_64(int bits, uint64_t value) {
    return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

// Without a sign, for they may overflow.
inline uint32_t product_32(int bits, uint32_t a, uint32_t b) {
    return static_cast<uint32_t>(signed_32(bits, a)) * static_cast<uint32_t>(signed_32(bits, b));
}

inline uint64_t product_64(int bits, uint64_t a, uint64_t b) {
    return static_cast<uint64_t>(signed_64(bits, a)) * static_cast<uint64_t>(signed_64(bits, b));
}

}  // namespace tilewright

#define VL_EXTENDS_II(result_bits, bits, value) static_cast<IData>(tilewright::signed_32(bits, value))
#define VL_EXTENDS_QI(result_bits, bits, value) static_cast<QData>(tilewright::signed_64(bits, value))
#define VL_EXTENDS_QQ(result_bits, bits, value) static_cast<QData>(tilewright::signed_64(bits, value))
#define VL_MULS_III(bits, a, b) static_cast<IData>(tilewright::product_32(bits, a, b))
#define VL_MULS_QQQ(bits, a, b) static_cast<QData>(tilewright::product_64(bits, a, b))
#define VL_GTS_III(bits, a, b) static_cast<IData>(tilewright::signed_32(bits, a) > tilewright::signed_32(bits, b))
#define VL_LTS_III(bits, a, b) static_cast<IData>(tilewright::signed_32(bits, a) < tilewright::signed_32(bits, b))
#define VL_GTS_IQQ(bits, a, b) static_cast<IData>(tilewright::signed_64(bits, a) > tilewright::signed_64(bits, b))
#define VL_LTS_IQQ(bits, a, b) static_cast<IData>(tilewright::signed_64(bits, a) < tilewright::signed_64(bits, b))
