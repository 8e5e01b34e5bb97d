(* Page 6: Random projections of attention. Means of independent numbers, on which Theorem 6.4 and
   Proposition 6.13 rest (random_projections_3.v). *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Means, independence, and the second moments of R^T R *)
Module Mean.
Section Mean.
Variables (F : realFieldType) (Om : Type) (E : (Om -> F) -> F).
(* The mean E of a function of the draw: linear and extensional, with E 1 = 1. The expectation of
   any probability space is one (on the functions that have a mean; a linear functional on them
   extends to all functions, so E may be taken total). *)
Definition is_mean := [/\ forall a b f g, E (fun o => a * f o + b * g o) = a * E f + b * E g,
  forall f g, f =1 g -> E f = E g & E (fun _ => 1) = 1].
Hypotheses ME : is_mean.
Lemma Eext f g : f =1 g -> E f = E g. Proof. by case: ME => _ e _; apply: e. Qed.
Lemma Elin a b f g : E (fun o => a * f o + b * g o) = a * E f + b * E g.
Proof. by case: ME => l _ _; apply: l. Qed.
Lemma Ecst c : E (fun _ => c) = c.
Proof.
case: ME => lin ext one; rewrite (ext _ (fun=> c * 1 + 0 * 1)) => [|o]; last by rewrite mul0r
  addr0 mulr1.
by rewrite lin one mul0r addr0 mulr1.
Qed.
Lemma EZ c f : E (fun o => c * f o) = c * E f.
Proof.
rewrite (Eext (g := fun o => c * f o + 0 * f o)) => [|o]; last by rewrite mul0r addr0.
by rewrite Elin mul0r addr0.
Qed.
Lemma ED f g : E (fun o => f o + g o) = E f + E g.
Proof.
rewrite (Eext (g := fun o => 1 * f o + 1 * g o)) => [|o]; last by rewrite !mul1r.
by rewrite Elin !mul1r.
Qed.
Lemma Esum (I : Type) (r : seq I) (f : I -> Om -> F) :
  E (fun o => \sum_(i <- r) f i o) = \sum_(i <- r) E (f i).
Proof.
elim: r => [|i r IH]; first by rewrite big_nil (Eext (g := fun=> 0)) ?Ecst // => o; rewrite
  big_nil.
rewrite big_cons -IH -ED; apply: Eext => o; exact: big_cons.
Qed.

Variables (k n : nat) (R : Om -> 'M[F]_(k, n)) (kappa : F).
Let v : F := k%:R^-1.
(* Independent entries: the mean of a product of powers is the product of the means. *)
Definition independent := forall e : 'I_k * 'I_n -> nat,
  E (fun o => \prod_x R o x.1 x.2 ^+ e x) = \prod_x E (fun o => R o x.1 x.2 ^+ e x).
(* Entries of mean 0, variance 1/k and fourth moment kappa / k^2. *)
Definition moments := forall a i, [/\ E (fun o => R o a i) = 0,
  E (fun o => R o a i ^+ 2) = v & E (fun o => R o a i ^+ 4) = kappa * v ^+ 2].
Hypotheses (k0 : (0 < k)%N) (ind : independent) (mom : moments).

Let mu (x : 'I_k * 'I_n) o := R o x.1 x.2.
(* Step 1. E[r_p r_q r_r r_s]: two different pairs give 1/k^2, four equal indices kappa/k^2, all
   else 0. *)
Lemma fourth p q r s : E (fun o => mu p o * mu q o * mu r o * mu s o) = v ^+ 2 *
  (((p == q) && (r == s))%:R + ((p == r) && (q == s))%:R + ((p == s) && (q == r))%:R +
  (kappa - 3%:R) * [&& p == q, p == r & p == s]%:R).
Proof.
pose e x := ((x == p) + (x == q) + (x == r) + (x == s))%N.
have one y o : \prod_x mu x o ^+ (x == y) = mu y o.
  by rewrite (bigD1 y) //= eqxx expr1 big1 ?mulr1 // => x /negbTE ->.
have -> : E (fun o => mu p o * mu q o * mu r o * mu s o) = \prod_x E (fun o => mu x o ^+ e x).
  rewrite -ind; apply: Eext => o; rewrite -[in LHS](one p) -[in LHS](one q) -[in LHS](one r).
  by rewrite -[in LHS](one s) -!big_split; apply: eq_bigr => x _; rewrite /= -!exprD.
have m1 x : E (mu x) = 0 by case: (mom x.1 x.2).
have single x : e x = 1%N -> \prod_x E (fun o => mu x o ^+ e x) = 0.
  move=> ex; rewrite (bigD1 x) //= ex -[X in X * _](_ : 0 = _) ?mul0r //.
  by rewrite -(m1 x); apply: Eext => o; rewrite expr1.
have m2 x : E (fun o => mu x o ^+ 2) = v by case: (mom x.1 x.2).
have m4 x : E (fun o => mu x o ^+ 4) = kappa * v ^+ 2 by case: (mom x.1 x.2).
have m0 x : E (fun o => mu x o ^+ 0) = 1 by rewrite (Eext (g := fun=> 1)) ?Ecst.
have pairs x y : x != y -> (forall z, e z = (z == x) * 2 + (z == y) * 2)%N ->
    \prod_x E (fun o => mu x o ^+ e x) = v ^+ 2.
  move=> xy ez; rewrite (bigD1 x) //= (bigD1 y) 1?eq_sym //= big1 => [|z /andP[/negbTE zx /negbTE
    zy]].
    by rewrite !ez !eqxx [y == x]eq_sym (negbTE xy) /= mulr1 !m2.
  by rewrite ez zx zy /= m0.
have no (x y : 'I_k * 'I_n) : x != y -> (y == x) = false by rewrite eq_sym => /negbTE.
have simp := (mulr0, mul0r, addr0, add0r, mulr1, andbF, eqxx, addn0, add0n).
rewrite /e in single pairs *; clear e.
case: (eqVneq q p) single pairs => [->|qp] single pairs.
  case: (eqVneq s r) single pairs => [->|sr] single pairs.
    case: (eqVneq r p) single pairs => [->|rp] single pairs.
      rewrite (bigD1 p) //= big1 => [|z /negbTE zp]; last by rewrite zp /= m0.
      rewrite !eqxx /= m4 mulr1 [v ^+ 2 * _]mulrC mulr1; congr (_ * _).
      by rewrite -!natrD addrC subrK.
    rewrite (pairs p r) => [||z]; rewrite ?(no _ _ rp) ?(negbTE rp) ?simp /= ?simp //.
    by rewrite !muln2 -!addnn !addnA.
  case: (eqVneq r p) sr single pairs => [->|rp] sr single pairs.
    by rewrite (single s) ?(no _ _ sr) ?(negbTE sr) /= ?simp.
  by rewrite (single r) ?(no _ _ rp) ?(no _ _ sr) ?(negbTE rp) ?(negbTE sr) /= ?simp.
case: (eqVneq r p) single pairs => [->|rp] single pairs.
  case: (eqVneq s q) single pairs => [->|sq] single pairs.
    rewrite (pairs p q) => [||z]; rewrite ?(no _ _ qp) ?(negbTE qp) ?simp /= ?simp // 1?eq_sym //.
    by rewrite !muln2 -!addnn !addnA; congr (_ + _)%N; rewrite -!addnA; congr (_ + _)%N; exact:
      addnC.
  by rewrite (single q) ?(no _ _ qp) ?(no _ _ sq) ?(negbTE qp) ?(negbTE sq) /= ?simp.
case: (eqVneq s p) single pairs => [->|sp] single pairs.
  case: (eqVneq r q) single pairs => [->|rq] single pairs.
    rewrite (pairs p q) => [||z]; rewrite ?(no _ _ qp) ?(negbTE qp) ?simp /= ?simp // 1?eq_sym //.
    by rewrite !muln2 -!addnn addnC !addnA.
  by rewrite (single q) ?(no _ _ qp) ?(no _ _ rq) ?(negbTE qp) ?(negbTE rq) /= ?simp.
by rewrite (single p) ?(no _ _ qp) ?(no _ _ rp) ?(no _ _ sp) ?(negbTE qp) ?(negbTE rp)
     ?(negbTE sp) /= ?simp.
Qed.

Definition G o : 'M[F]_n := (R o)^T *m R o.
Lemma GE j m o : G o j m = \sum_a mu (a, j) o * mu (a, m) o.
Proof. by rewrite mxE; apply: eq_bigr => a _; rewrite mxE. Qed.
Lemma kv : k%:R * v = 1. Proof. by rewrite mulfV // pnatr_eq0 -lt0n. Qed.

(* Step 2. The mean of R^T R is the identity. *)
Lemma second j m : E (fun o => G o j m) = (j == m)%:R.
Proof.
rewrite (Eext (fun o => GE j m o)) Esum -kv.
rewrite (eq_bigr (fun=> v * (j == m)%:R)) => [|a _]; last first.
  have [<-|jm] := eqVneq j m.
    by case: (mom a j) => _ <- _; rewrite mulr1; apply: Eext => o; rewrite -expr2.
  rewrite mulr0; pose e (x : 'I_k * 'I_n) := ((x == (a, j)) + (x == (a, m)))%N.
  have one y o : \prod_x mu x o ^+ (x == y) = mu y o.
    by rewrite (bigD1 y) //= eqxx expr1 big1 ?mulr1 // => x /negbTE ->.
  rewrite (Eext (g := fun o => \prod_x R o x.1 x.2 ^+ e x)) => [|o].
    rewrite ind (bigD1 (a, j)) //= /e eqxx xpair_eqE eqxx (negbTE jm) /=.
    by case: (mom a j) => m1 _ _; rewrite -[X in X * _](_ : 0 = _) ?mul0r // -m1; apply: Eext =>
      o.
  rewrite -[in LHS](one (a, j)) -[in LHS](one (a, m)) -big_split.
  by apply: eq_bigr => x _ /=; rewrite -exprD.
by rewrite sumr_const card_ord -[_ *+ k]mulr_natl mulrA kv mul1r.
Qed.

(* Step 3. The second moments of R^T R: this is (6.8), summed over the k rows. *)
Lemma product j m j' m' : E (fun o => G o j m * G o j' m') = ((j == m) && (j' == m'))%:R +
  v * (((j == j') && (m == m'))%:R + ((j == m') && (m == j'))%:R +
       (kappa - 3%:R) * [&& j == m, j == j' & j == m']%:R).
Proof.
set A := (_ && _)%:R; set B := (_ + _ + _).
rewrite (Eext (g := fun o => \sum_a \sum_b mu (a, j) o * mu (a, m) o * mu (b, j') o * mu (b, m')
  o)).
  rewrite Esum (eq_bigr (fun a => \sum_b v ^+ 2 * (A + (a == b)%:R * B))) => [|a _].
    rewrite (eq_bigr (fun=> v ^+ 2 * (k%:R * A + B))) => [|a _].
      rewrite sumr_const card_ord -[_ *+ k]mulr_natl mulrA expr2 mulrA kv mul1r mulrDr mulrA.
      by rewrite [v * k%:R]mulrC kv mul1r.
    rewrite -mulr_sumr big_split sumr_const card_ord -[_ *+ k]mulr_natl; congr (_ * (_ + _)).
    by rewrite (bigD1 a) //= eqxx mul1r big1 ?addr0 // => b /negbTE ba; rewrite eq_sym ba mul0r.
  rewrite Esum; apply: eq_bigr => b _; rewrite fourth; congr (_ * _); rewrite /A /B !xpair_eqE
    !eqxx /=.
  case: (a == b); rewrite /= ?mul0r ?mul1r ?addr0 ?andbF ?mulr0 ?addr0 //.
  by rewrite -!addrA; congr (_ + (_ + _)); rewrite [m' == _]eq_sym andbC.
move=> o; rewrite !GE mulr_suml; apply: eq_bigr => a _; rewrite mulr_sumr.
by apply: eq_bigr => b _; rewrite mulrA.
Qed.

Lemma pick (I : finType) (i : I) (f : I -> F) : \sum_j f j * (i == j)%:R = f i.
Proof.
by rewrite (bigD1 i) //= eqxx mulr1 big1 ?addr0 // => j /negbTE ji; rewrite eq_sym ji mulr0.
Qed.

(* One entry of P R^T R V. *)
(* Step 4. The mean square of one entry of the error. *)
Lemma entry (p w : 'I_n -> F) : let x o := \sum_j \sum_l (p j * w l) * G o j l in
  E (fun o => (x o - \sum_j p j * w j) ^+ 2) = v * ((\sum_j p j ^+ 2) * (\sum_j w j ^+ 2) +
    (\sum_j p j * w j) ^+ 2 + (kappa - 3%:R) * \sum_j p j ^+ 2 * w j ^+ 2).
Proof.
set c := \sum_j p j * w j; move=> x.
have Ex : E x = c.
  rewrite Esum; apply: eq_bigr => j _; rewrite Esum -[RHS](pick j (fun l => p j * w l)).
  by apply: eq_bigr => l _; rewrite EZ second.
have Ex2 : E (fun o => x o ^+ 2) = c ^+ 2 + v * ((\sum_j p j ^+ 2) * (\sum_j w j ^+ 2) + c ^+ 2 +
    (kappa - 3%:R) * \sum_j p j ^+ 2 * w j ^+ 2).
  rewrite (Eext (g := fun o => \sum_j \sum_l \sum_j' \sum_l' (p j * w l * (p j' * w l')) * (G o j
    l * G o j' l'))); last first.
    move=> o; rewrite expr2 mulr_suml; apply: eq_bigr => j _; rewrite mulr_suml; apply: eq_bigr
      => l _.
    rewrite mulr_sumr; apply: eq_bigr => j' _; rewrite mulr_sumr; apply: eq_bigr => l' _.
    by rewrite mulrACA.
  pose S f := \sum_j \sum_l \sum_j' \sum_l' (p j * w l * (p j' * w l')) * (f j l j' l')%:R : F.
  transitivity (S (fun j l j' l' => (j == l) && (j' == l')) + v * (S (fun j l j' l' => (j == j')
    && (l == l')) +
     S (fun j l j' l' => (j == l') && (l == j')) + (kappa - 3%:R) * S (fun j l j' l' => [&& j ==
       l, j == j' & j == l']))).
    rewrite Esum /S !(mulr_sumr, =^~ big_split); apply: eq_bigr => j _ /=.
    rewrite Esum !(mulr_sumr, =^~ big_split); apply: eq_bigr => l _ /=.
    rewrite Esum !(mulr_sumr, =^~ big_split); apply: eq_bigr => j' _ /=.
    rewrite Esum !(mulr_sumr, =^~ big_split); apply: eq_bigr => l' _ /=.
    by rewrite EZ product !mulrDr ![_ * (v * _)]mulrCA ![_ * ((kappa - _) * _)]mulrCA.
  congr (_ + v * (_ + _ + _ * _)).
  - rewrite /c expr2 mulr_suml; apply: eq_bigr => j _.
    rewrite -[p j * w j in RHS](pick j (fun l => p j * w l)) mulr_suml; apply: eq_bigr => l _.
    rewrite mulr_sumr; apply: eq_bigr => j' _.
    rewrite -[p j' * w j' in RHS](pick j' (fun l => p j' * w l)) mulr_sumr; apply: eq_bigr => l'
      _.
    by rewrite -mulnb natrM mulrACA.
  - rewrite mulr_suml; apply: eq_bigr => j _; rewrite mulr_sumr; apply: eq_bigr => l _.
    rewrite -[RHS](pick j (fun j' => p j * p j' * w l ^+ 2)); apply: eq_bigr => j' _.
    rewrite -[w l ^+ 2](pick l (fun l' => w l * w l')) mulr_sumr mulr_suml; apply: eq_bigr => l'
      _.
    by rewrite -mulnb natrM !mulrA [LHS](ACl (1*3*2*4*6*5)).
  - rewrite expr2 mulr_suml; apply: eq_bigr => j _; rewrite mulr_sumr; apply: eq_bigr => l _.
    rewrite -[RHS](pick l (fun j' => p j * w j * (p j' * w l))); apply: eq_bigr => j' _.
    rewrite -[w j](pick j (fun l' => w l')) mulr_sumr !mulr_suml; apply: eq_bigr => l' _.
    by rewrite -mulnb natrM !mulrA [LHS](ACl (1*4*5*3*2*6)).
  apply: eq_bigr => j _; rewrite -[RHS](pick j (fun l => p j ^+ 2 * (w j * w l))).
  apply: eq_bigr => l _; rewrite -[p j ^+ 2](pick j (fun j' => p j * p j')) !mulr_suml.
  apply: eq_bigr => j' _; rewrite -[w j](pick j (fun l' => w l')) !mulr_suml mulr_sumr mulr_suml.
  by apply: eq_bigr => l' _; rewrite -!mulnb !natrM !mulrA [LHS](ACl (1*3*6*4*7*2*5)).
rewrite (Eext (g := fun o => 1 * x o ^+ 2 + 1 * ((- (c *+ 2)) * x o + c ^+ 2 * 1))) => [|o].
  rewrite Elin Elin Ex Ex2 Ecst !mul1r mulr1 mulNr mulrnAl -expr2 mulr2n opprD addrNK.
  by rewrite addrAC subrr add0r.
by rewrite sqrrB !mul1r mulr1 mulNr -addrA; congr (_ + (- _ + _)); rewrite mulrnAl mulrC.
Qed.

(* The law for P R^T R V with a matrix V, Theorem 7.10 (a) for kappa = 3: add the entries up. *)
Theorem product_law m d (P : 'M[F]_(m, n)) (V : 'M[F]_(n, d)) :
  E (fun o => sqnorm (P *m G o *m V - P *m V)) = v * (sqnorm P * sqnorm V + sqnorm (P *m V) +
    (kappa - 3%:R) * \sum_j (\sum_i P i j ^+ 2) * (\sum_c V j c ^+ 2)).
Proof.
pose x i c o := \sum_j \sum_l (P i j * V l c) * G o j l.
have xE o i c : (P *m G o *m V) i c = x i c o.
  rewrite mxE (eq_bigr (fun l => \sum_j P i j * V l c * G o j l)) => [|l _].
    by rewrite exchange_big.
  by rewrite mxE mulr_suml; apply: eq_bigr => j _; rewrite mulrAC.
have pv i c : (P *m V) i c = \sum_j P i j * V j c by rewrite mxE.
rewrite (Eext (g := fun o => \sum_i \sum_c (x i c o - (\sum_j P i j * V j c)) ^+ 2)) => [|o];
  last first.
  apply: eq_bigr => i _; apply: eq_bigr => c _; rewrite -pv -xE; congr (_ ^+ 2).
  by rewrite [LHS]mxE; congr (_ + _); rewrite mxE.
have term i c : E (fun o => (x i c o - \sum_j P i j * V j c) ^+ 2) = v * ((\sum_j P i j ^+ 2) *
   (\sum_j V j c ^+ 2) + (P *m V) i c ^+ 2 + (kappa - 3%:R) * \sum_j P i j ^+ 2 * V j c ^+ 2).
  by rewrite (entry (P i) (fun l => V l c)) -pv.
rewrite Esum (eq_bigr _ (fun i _ => Esum _ _)) /=.
rewrite (eq_bigr _ (fun i _ => eq_bigr _ (fun c _ => term i c))) /=.
under eq_bigr do rewrite -mulr_sumr !big_split -mulr_sumr -mulr_sumr /=.
rewrite -mulr_sumr !big_split -mulr_suml -mulr_sumr /=; congr (_ * (_ * _ + _ + _ * _)).
  by rewrite exchange_big.
rewrite (eq_bigr (fun i => \sum_j \sum_c P i j ^+ 2 * V j c ^+ 2)) => [|i _]; last exact:
  exchange_big.
rewrite exchange_big; apply: eq_bigr => j _; rewrite mulr_suml; apply: eq_bigr => i _.
by rewrite mulr_sumr.
Qed.

(* Theorem 6.4 (Mean-square law), (6.5): E |P R^T R w - P w|^2 for every P and w. *)
Theorem mean_square m (P : 'M[F]_(m, n)) (w : 'cV[F]_n) :
  E (fun o => sqnorm (P *m (R o)^T *m R o *m w - P *m w)) = k%:R^-1 * (sqnorm P * sqnorm w +
    sqnorm (P *m w) + (kappa - 3%:R) * \sum_j w j 0 ^+ 2 * sqnorm (P *m (delta_mx j 0 : 'cV_n))).
Proof.
rewrite (Eext (g := fun o => sqnorm (P *m G o *m w - P *m w))) => [|o]; last by rewrite /G
  !mulmxA.
rewrite product_law; congr (_ * (_ + _ * _)); apply: eq_bigr => j _; rewrite big_ord1 mulrC.
by congr (_ * _); apply: eq_bigr => i _; rewrite big_ord1 -colE mxE.
Qed.

Hypotheses gauss : kappa = 3%:R.
Lemma sqnorm1 : sqnorm (1%:M : 'M[F]_n) = n%:R.
Proof.
rewrite -[n in RHS]card_ord -sumr_const; apply: eq_bigr => i _.
by rewrite (bigD1 i) //= mxE eqxx expr1n big1 ?addr0 // => j; rewrite eq_sym mxE => /negbTE ->;
  rewrite expr0n.
Qed.
(* Proposition 6.13 (Worse than zero), (6.14): kappa = 3, as for Gaussian entries; V = I. *)
Theorem worse_than_zero m (P : 'M[F]_(m, n)) :
  E (fun o => sqnorm (P *m (R o)^T *m R o - P)) = (n + 1)%:R / k%:R * sqnorm P.
Proof.
rewrite (Eext (g := fun o => sqnorm (P *m G o *m 1%:M - P *m 1%:M))) => [|o]; last by rewrite /G
  !mulmx1 mulmxA.
by rewrite product_law mulmx1 sqnorm1 gauss subrr mul0r addr0 natrD -[X in _ * (_ + X)]mulr1
  -mulrDr mulrCA [LHS]mulrC [v * _]mulrC.
Qed.
Lemma sqnorm_gt0 m (P : 'M[F]_(m, n)) : P != 0 -> 0 < sqnorm P.
Proof.
move=> P0; have pos i : 0 <= \sum_c P i c ^+ 2 by apply: sumr_ge0 => c _; exact: sqr_ge0.
rewrite lt_neqAle eq_sym sumr_ge0 ?andbT => [|i _]; last exact: pos.
apply: contra P0 => /eqP z; apply/eqP/matrixP => i c; rewrite mxE; apply/eqP.
have zi := @psumr_eq0P _ _ _ _ (fun i _ => pos i) z i isT.
have := @psumr_eq0P _ _ predT _ (fun c _ => sqr_ge0 (P i c)) zi c isT => /eqP.
by rewrite sqrf_eq0.
Qed.
(* Proposition 6.13: for k <= n the zero matrix is nearer to P on average. *)
Theorem above_zero m (P : 'M[F]_(m, n)) : P != 0 -> (k <= n)%N ->
  sqnorm P < E (fun o => sqnorm (P *m (R o)^T *m R o - P)).
Proof.
move=> P0 kn; rewrite worse_than_zero ltr_pmull ?sqnorm_gt0 // ltr_pdivl_mulr ?ltr0n // mul1r
  ltr_nat.
by rewrite addn1 ltnS.
Qed.
(* Proposition 6.13: the mean square of the multiple c, in units of |P|^2. *)
Theorem multiple m (P : 'M[F]_(m, n)) c : E (fun o => sqnorm (c *: (P *m (R o)^T *m R o) - P)) =
  (c ^+ 2 * (1 + (n + 1)%:R / k%:R) - c *+ 2 + 1) * sqnorm P.
Proof.
set D := fun o => P *m (R o)^T *m R o - P.
have inner : E (fun o => \sum_i \sum_j P i j * D o i j) = 0.
  rewrite (Eext (g := fun o => \sum_i \sum_j \sum_l P i j * (P i l * G o l j) - sqnorm P)) =>
    [|o].
    rewrite (Eext (g := fun o => 1 * (\sum_i \sum_j \sum_l P i j * (P i l * G o l j)) + (- 1) *
      sqnorm P)) => [|o].
      rewrite Elin Ecst mul1r mulN1r Esum; apply/eqP; rewrite subr_eq0; apply/eqP.
      apply: eq_bigr => i _; rewrite Esum; apply: eq_bigr => j _; rewrite Esum expr2 -[X in _ = _
        * X](pick j (P i)) mulr_sumr.
      apply: eq_bigr => l _; rewrite (Eext (g := fun o => (P i j * P i l) * G o l j)) => [|o];
        last by rewrite mulrA.
      by rewrite EZ second -mulrA [j == l]eq_sym.
    by rewrite mul1r mulN1r.
  rewrite /sqnorm -sumrB; apply: eq_bigr => i _; rewrite -sumrB; apply: eq_bigr => j _.
  rewrite /D mxE [X in _ * (_ + X)]mxE mulrBr expr2 -mulmxA mxE mulr_sumr; congr (_ - _).
have sq o : sqnorm (c *: (P *m (R o)^T *m R o) - P) = c ^+ 2 * sqnorm (D o) +
    (((c - 1) * c *+ 2) * (\sum_i \sum_j P i j * D o i j) + (c - 1) ^+ 2 * sqnorm P).
  have -> : c *: (P *m (R o)^T *m R o) - P = c *: D o + (c - 1) *: P.
    by rewrite /D scalerBr scalerBl scale1r addrA addrNK.
  rewrite /sqnorm !mulr_sumr -!big_split; apply: eq_bigr => i _; rewrite !mulr_sumr -!big_split.
  apply: eq_bigr => j _ /=; rewrite mxE [X in X + _]mxE [X in _ + X]mxE sqrrD !exprMn -addrA;
    congr (_ + (_ + _)).
  by rewrite mulrnAl; congr (_ *+ 2); rewrite !mulrA [LHS](ACl (3*1*4*2)).
rewrite (Eext sq) (Eext (g := fun o => c ^+ 2 * sqnorm (D o) + 1 *
    (((c - 1) * c *+ 2) * (\sum_i \sum_j P i j * D o i j) + ((c - 1) ^+ 2 * sqnorm P) * 1))) =>
      [|o]; last by rewrite mul1r mulr1.
rewrite !Elin inner Ecst mulr0 add0r mul1r mulr1 worse_than_zero mulrA -mulrDl; congr (_ * _).
by rewrite sqrrB1 mulrDr mulr1 !addrA; congr (_ + _ + _); rewrite addrC.
Qed.
(* Proposition 6.13: the best multiple c = k / (n + k + 1) leaves (1 - c) |P|^2. *)
Theorem best_multiple m (P : 'M[F]_(m, n)) : let c0 := k%:R / (n + k + 1)%:R in
  let loss c := E (fun o => sqnorm (c *: (P *m (R o)^T *m R o) - P)) in
  loss c0 = (1 - c0) * sqnorm P /\ forall c, loss c0 <= loss c.
Proof.
move=> c0 loss; set q := 1 + (n + 1)%:R / k%:R : F.
have kR : k%:R != 0 :> F by rewrite pnatr_eq0 -lt0n.
have qE : q = (n + k + 1)%:R / k%:R by rewrite /q -[X in X + _](mulfV kR) -mulrDl -natrD addnCA
  addnA.
have cq : c0 * q = 1 by rewrite qE /c0 mulrA divfK ?mulfV // pnatr_eq0 addn1.
have q0 : 0 <= q by rewrite addr_ge0 ?ler01 ?divr_ge0 ?ler0n.
have s0 := sq_ge0 P.
have l0 : loss c0 = (1 - c0) * sqnorm P.
  by rewrite /loss multiple -/q expr2 -mulrA cq mulr1 mulr2n opprD addrA subrr add0r addrC.
split=> // c; rewrite l0 /loss multiple -/q ler_wpmul2r //.
clearbody q; have -> : c ^+ 2 * q - c *+ 2 + 1 = (1 - c0) + q * (c - c0) ^+ 2.
  have c2 : q * c0 ^+ 2 = c0 by rewrite expr2 mulrCA [q * c0]mulrC cq mulr1.
  rewrite sqrrB !mulrDr mulrN c2 mulrnAr [q * (c * c0)]mulrCA [q * c0]mulrC cq !mulr1 [q *
    _]mulrC.
  by rewrite addrC -!addrA; congr (_ + _); rewrite [RHS]addrC !addrA addrK.
by rewrite ler_addl mulr_ge0 ?sqr_ge0.
Qed.
End Mean.

(* Instance: k = n = 1, one fair sign; its fourth moment is 1, so kappa = 1. *)
Example one_sign (F : realFieldType) :
  let E (f : bool -> F) := (f true + f false) / 2%:R in
  let R (o : bool) : 'M[F]_(1, 1) := const_mx (if o then 1 else - 1) in
  [/\ is_mean E, independent E R & moments E R 1].
Proof.
move=> E R; have h : 2%:R != 0 :> F by rewrite pnatr_eq0.
have two : (1 + 1) / 2%:R = 1 :> F by rewrite -(natrD _ 1 1) divff.
split.
- split=> [a b f g|f g e|]; rewrite /E ?e ?two //.
  by rewrite addrACA -!mulrDr mulrDl -!mulrA.
- move=> e; have one (G : 'I_1 * 'I_1 -> F) : \prod_x G x = G (0, 0).
    by rewrite (bigD1 (0, 0)) //= big1 ?mulr1 // => -[x y]; rewrite !ord1 eqxx.
  by rewrite /E !one.
move=> a i; split; rewrite /E !mxE ?mulr1n.
- by rewrite subrr mul0r.
- by rewrite sqrrN expr1n two invr1.
by rewrite -[4%N]/(2 * 2)%N !exprM sqrrN !expr1n two invr1 expr1n mulr1.
Qed.
End Mean.
